"""Media of the next samples are read while others are answered: which, how many, and failures."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from engine_doubles import GIVE_UP_S, Answers, a_sample, answered
from run_samples import a_manifest
from test_answering import Equal, Reasons, a_trace

from viper.errors import MediaError
from viper.evaluate.campaign import Budget, run
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import SHARED_MEDIA_BYTES, Item, SampleRunner
from viper.evaluate.runs.store import RunStore
from viper.models.media import Media
from viper.reasoner import RunOptions
from viper.run_result import RunResult
from viper.schema import Answer
from viper.strategies.base import UsageMeter

ENGINE_THREADS = ("viper-sample", "viper-media")


class Pictures:
    """Loads a small picture of each item and records the threads that did; one is unreadable."""

    def __init__(self, count: int, *, side: int = 4, broken: int = -1) -> None:
        self.loaded: list[tuple[int, str]] = []
        self.read = [threading.Event() for _ in range(count)]
        self._side, self._broken = side, broken

    def items(self) -> list[Item]:
        return [
            Item(n, a_sample(n, files=(f"{n}.png",), load=lambda n=n: self.load(n)), 0)
            for n in range(len(self.read))
        ]

    def load(self, number: int) -> Any:
        self.loaded.append((number, threading.current_thread().name))
        self.read[number].set()
        if number == self._broken:
            raise MediaError(f"{number}.png: the file is empty (0 bytes)")
        return np.full((self._side, self._side, 3), number, np.uint8)

    def runner(self, act: Any = None, size: int = 24) -> SampleRunner:
        reasoner: Any = Reasons(act)
        return SampleRunner.with_cache(reasoner, Equal(), RunOptions(), size)


@pytest.fixture
def store(tmp_path: Any) -> Iterator[RunStore]:
    with RunStore.create(tmp_path / "run", a_manifest()) as opened:
        yield opened


@pytest.mark.parametrize("in_flight", [1, 3])
def test_the_next_pictures_are_read_while_one_is_answered(store: RunStore, in_flight: int) -> None:
    pictures = Pictures(6 * in_flight)
    answering = 0
    lock = threading.Lock()

    def act(media: Media, usage: UsageMeter) -> Iterator[Any]:
        nonlocal answering
        with lock:
            answering += 1
        if answering <= in_flight:  # the first ones answer until the next pictures are there
            for number in range(2 * in_flight):
                assert pictures.read[number].wait(GIVE_UP_S)
        yield RunResult(a_trace(Answer("red", "text")), media)

    engine = LocalEngine(pictures.runner(act), Bounds(in_flight))
    ended = run(engine, pictures.items(), store)
    assert (ended.running.done, ended.running.failed) == (6 * in_flight, 0)
    numbers = [number for number, _ in pictures.loaded]
    assert sorted(numbers) == list(range(6 * in_flight))  # each once
    assert any(thread == "viper-media" for _, thread in pictures.loaded)
    assert not [one for one in threading.enumerate() if one.name in ENGINE_THREADS]


def test_no_more_than_two_per_thread_are_read_ahead() -> None:
    answers, go = Answers(), threading.Event()
    items = [Item(n, a_sample(n), 0) for n in range(40)]
    upcoming = deque(items)

    def feed() -> Iterator[Item]:
        while upcoming:
            yield upcoming.popleft()

    def act(item: Item, cancel: threading.Event) -> Any:
        go.wait(GIVE_UP_S)
        return answered(item)

    answers._act = act
    engine: Any = LocalEngine(answers, Bounds(2)).run(feed(), threading.Event(), upcoming)  # type: ignore[arg-type]
    threading.Timer(0.05, go.set).start()
    first = next(engine)
    assert first.position in (0, 1)
    engine.close()
    assert max(answers.read, default=0) <= max(answers.asked) + 4


def test_an_unreadable_picture_fails_its_own_sample_only(store: RunStore) -> None:
    pictures = Pictures(12, broken=5)
    ended = run(LocalEngine(pictures.runner(), Bounds(2)), pictures.items(), store)
    assert ended.running.done == 12
    failed = [row for row in store.rows() if row.failure]
    assert [(row.sample_id, row.failure) for row in failed] == [("s5", "media")]
    assert failed[0].message == "5.png: the file is empty (0 bytes)"


def test_reading_ahead_begins_no_item_that_the_budget_does_not_allow(store: RunStore) -> None:
    pictures = Pictures(30)
    engine = LocalEngine(pictures.runner(), Bounds(2))
    ended = run(engine, pictures.items(), store, budget=Budget(llm_calls=4))
    assert ended.reason == "budget" and ended.running.llm_calls <= 4
    assert len(pictures.loaded) < 30


def test_an_error_of_the_run_stops_the_readers(store: RunStore) -> None:
    def stopped(row: Any, running: Any) -> None:
        raise KeyboardInterrupt

    pictures = Pictures(40)
    with pytest.raises(KeyboardInterrupt):
        run(LocalEngine(pictures.runner(), Bounds(2)), pictures.items(), store, on_done=stopped)
    assert not [one for one in threading.enumerate() if one.name in ENGINE_THREADS]
    assert len(pictures.loaded) < 40


def test_pictures_that_would_push_others_out_of_memory_are_not_read_ahead() -> None:
    small, large = Pictures(4), Pictures(4, side=4)
    runner = small.runner(size=24)
    assert runner.ahead(16) == 8 and runner.ahead(2) == 4 and runner.ahead(30) == 0
    large_side = int((SHARED_MEDIA_BYTES / 9 / 3) ** 0.5)
    large = Pictures(4, side=large_side)
    runner = large.runner(size=24)
    for item in large.items()[:1]:
        runner.prefetch(item)
    assert runner.ahead(2) == 4 and runner.ahead(7) in (1, 2) and runner.ahead(16) == 0
