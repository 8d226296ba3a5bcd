"""A service answers the next request after a file that would take minutes to decode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile_media import HOSTILE
from tests.serve.bench import Served, media, served


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(workers=2, deadline_s=3.0) as made:
        yield made


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_ends_and_the_next_request_is_answered(
    kind: str, server: Served, tmp_path: Path
) -> None:
    name, make = HOSTILE[kind]
    make(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert server.run(files=media(content)).status_code in (200, 422, 504)
    assert server.run().status_code == 200
