"""One server for the tests that only ask it something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serve.bench import Served, served


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as running:
        yield running
