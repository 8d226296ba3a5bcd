"""A cancelled query, or one whose time is over, does not wait for requests that are under way."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.endpoint.conftest import Start
from tests.endpoint.model import ON_PICTURE
from viper import Reasoner, load_profile
from viper.errors import CancelledError

GIVE_UP_S = 20.0
"""Only ever used up by a test that fails."""


class Held:
    """A reply that does not come before the query has ended."""

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()
        self.was_awaited = False

    def __call__(self, request: Any) -> str:
        self.entered.set()
        self.was_awaited = not self.released.wait(GIVE_UP_S)
        return "x"


@pytest.mark.parametrize("kind", ["program", "boxes", "vqa"])
def test_cancel_ends_the_request_that_is_under_way(kind: str, start: Start, small: Path) -> None:
    held, cancel = Held(), threading.Event()
    start(**{"program": ON_PICTURE, kind: held})

    def cancel_it() -> None:
        held.entered.wait(GIVE_UP_S)
        cancel.set()

    threading.Thread(target=cancel_it).start()
    with Reasoner(load_profile("endpoint")) as reasoner, pytest.raises(CancelledError):
        reasoner.run(small, "what is it?", cancel=cancel)
    held.released.set()
    assert not held.was_awaited


@pytest.mark.parametrize("kind", ["program", "boxes"])
def test_the_end_of_the_time_ends_the_request_that_is_under_way(
    kind: str, start: Start, small: Path
) -> None:
    held = Held()
    start(**{"program": ON_PICTURE, kind: held})
    with Reasoner(load_profile("endpoint")) as reasoner:
        result = reasoner.run(small, "what is it?", max_seconds=0.5)
    held.released.set()
    assert not held.was_awaited
    assert result.failure is not None and result.failure.kind == "budget"
