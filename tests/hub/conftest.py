"""A hub of this machine, and a process that uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.server import Hub, serve


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A hub that this process uses, with an empty cache."""
    with serve() as running:
        running.use(monkeypatch, tmp_path / "cache")
        yield running
