"""Requests of many threads become batches; each gets its own result or its own error."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viper.errors import ModelError
from viper.models.batching import Gatherer, _Request


class Held:
    """Serves squares; the first batch waits until it is let go, so that others gather."""

    def __init__(self, gather: int) -> None:
        self.batches: list[tuple[Any, list[int]]] = []
        self.gatherer = Gatherer(self.serve, most=4)
        self._gather = gather

    def serve(self, kind: Any, items: list[int]) -> list[int]:
        if not self.batches:
            while len(self.gatherer._waiting) < self._gather:
                threading.Event().wait(0.001)
        self.batches.append((kind, items))
        return [item * item for item in items]


def ask_together(gatherer: Gatherer, asked: list[tuple[Any, int]]) -> list[Any]:
    """The results in order, errors as values."""

    def one(pair: tuple[Any, int]) -> Any:
        try:
            return gatherer.ask(*pair)
        except ModelError as error:
            return str(error)

    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(one, asked))


def test_a_lone_request_is_served_at_once() -> None:
    seen: list[list[int]] = []

    def serve(kind: Any, items: list[int]) -> list[int]:
        seen.append(items)
        return items

    assert Gatherer(serve).ask("a", 3) == 3
    assert seen == [[3]]


def test_requests_that_wait_are_served_together_up_to_the_bound() -> None:
    held = Held(gather=7)
    assert ask_together(held.gatherer, [("a", n) for n in range(8)]) == [n * n for n in range(8)]
    assert [len(items) for _, items in held.batches] == [1, 4, 3]
    assert (held.gatherer.batches, held.gatherer.items) == (3, 8)


def test_a_batch_holds_one_kind() -> None:
    held = Held(gather=5)
    asked = [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5), ("b", 6)]
    assert ask_together(held.gatherer, asked) == [n * n for _, n in asked]
    assert sum(len(items) for _, items in held.batches) == 6
    for kind, items in held.batches:
        assert all((kind, item) in asked for item in items)


def test_an_item_that_fails_spoils_no_other() -> None:
    started = threading.Event()
    gatherer: Gatherer

    def serve(kind: Any, items: list[int]) -> list[int]:
        if not started.is_set():
            started.set()
            while len(gatherer._waiting) < 3:
                threading.Event().wait(0.001)
        if 2 in items:
            raise ModelError("two is bad")
        return [item * 10 for item in items]

    gatherer = Gatherer(serve)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(gatherer.ask, "a", 9)
        started.wait()
        rest = [pool.submit(gatherer.ask, "a", n) for n in (1, 2, 3)]
    assert first.result() == 90
    assert (rest[0].result(), rest[2].result()) == (10, 30)
    with pytest.raises(ModelError, match="two is bad"):
        rest[1].result()
    assert gatherer.ask("a", 4) == 40


def test_a_wrong_number_of_results_is_an_error_not_a_mix_up() -> None:
    with pytest.raises(ModelError, match="0 results came back for 1 items"):
        Gatherer(lambda kind, items: []).ask("a", 1)


def test_an_interrupt_leaves_the_others_served() -> None:
    started = threading.Event()
    gatherer: Gatherer

    def serve(kind: Any, items: list[int]) -> list[int]:
        if not started.is_set():
            started.set()
            while len(gatherer._waiting) < 2:
                threading.Event().wait(0.001)
            raise KeyboardInterrupt
        return items

    gatherer = Gatherer(serve)
    caught: list[BaseException] = []

    def first() -> None:
        try:
            gatherer.ask("a", 0)
        except KeyboardInterrupt as error:
            caught.append(error)

    leader = threading.Thread(target=first)
    leader.start()
    started.wait()
    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(gatherer.ask, "a", n) for n in (1, 2)]
    leader.join()
    assert len(caught) == 1
    assert [other.result() for other in others] == [1, 2]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=24),
    st.sets(st.integers(0, 9), max_size=3),
    st.integers(1, 5),
)
def test_everybody_gets_their_own(asked: list[tuple[str, int]], bad: set[int], most: int) -> None:
    def serve(kind: str, items: list[int]) -> list[str]:
        for item in items:
            if item in bad:
                raise ModelError(f"bad {item}")
        return [f"{kind}{item}" for item in items]

    wanted = [f"bad {n}" if n in bad else f"{kind}{n}" for kind, n in asked]
    assert ask_together(Gatherer(serve, most), list(asked)) == wanted


class Picky(Exception):
    """An error that cannot be made from its ``args``."""

    def __init__(self, what: str, *, why: str) -> None:
        super().__init__(f"{what} because of {why}")
        self.why = why


def test_one_exception_raised_for_several_items_becomes_one_each() -> None:
    error = Picky("no", why="reasons")
    batches: list[list[int]] = []

    def serve(kind: Any, items: list[int]) -> list[int]:
        if not batches:
            while len(gatherer._waiting) < 4:
                threading.Event().wait(0.001)
        batches.append(items)
        if items != [0] and set(items) != {1}:
            raise error
        return items

    gatherer = Gatherer(serve)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(gatherer.ask, "a", 0)
        while not gatherer._busy:
            threading.Event().wait(0.001)
        asked = [pool.submit(gatherer.ask, "a", number) for number in (1, 2, 3, 4)]
    assert first.result() == 0 and asked[0].result() == 1
    caught = [future.exception() for future in asked[1:]]
    assert len({id(each) for each in caught}) == 3
    for each in caught:
        assert isinstance(each, Picky) and each.why == "reasons"
        assert str(each) == "no because of reasons" and each.__context__ is None


def test_a_failing_batch_is_served_again_in_halves() -> None:
    served: list[list[int]] = []
    started = threading.Event()

    def serve(kind: Any, items: list[int]) -> list[int]:
        if not started.is_set():
            started.set()
            while len(gatherer._waiting) < 8:
                threading.Event().wait(0.001)
            return items
        served.append(sorted(items))
        if 7 in items:
            raise ModelError("seven is bad")
        return items

    gatherer = Gatherer(serve)
    with ThreadPoolExecutor(9) as pool:
        pool.submit(gatherer.ask, "a", 9)
        started.wait()
        asked = [pool.submit(gatherer.ask, "a", number) for number in range(8)]
    assert [each.result() for each in asked[:7]] == list(range(7))
    assert isinstance(asked[7].exception(), ModelError)
    assert sorted(map(len, served)) == [1, 1, 2, 2, 4, 4, 8]


def test_the_error_of_a_batch_is_freed_before_its_halves_are_served() -> None:
    errors: list[weakref.ref[Refusal]] = []

    class Refusal(ModelError):
        def __init__(self) -> None:
            super().__init__("too many at once")
            errors.append(weakref.ref(self))

    def serve(kind: Any, items: list[int]) -> list[int]:
        if len(items) > 1:
            raise Refusal
        assert errors[0]() is None, "its traceback holds the memory of the whole batch"
        return items

    gc.disable()
    try:
        requests = [_Request("a", number) for number in range(2)]
        Gatherer(serve)._serve_batch(requests)
    finally:
        gc.enable()
    assert [(each.result, each.error) for each in requests] == [(0, None), (1, None)]
