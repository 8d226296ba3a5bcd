"""The threads of a run: order, deadlines, stopping, and whatever else goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from engine_doubles import GIVE_UP_S, an_engine, answered, outcomes, some_items

from viper.evaluate.engines import local as local_engine
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import Item, ItemOutcome
from viper.models.llm.protocol import Completion
from viper.strategies.base import UsageMeter


def sample_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "viper-sample"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a run waits no longer than this for threads that hang."""
    monkeypatch.setattr(local_engine, "_LEAVE_S", 0.05)


def test_each_item_once_whatever_the_order() -> None:
    found = outcomes(an_engine(in_flight=5), some_items(200))
    assert sorted(done.position for done in found) == list(range(200))
    assert all(done.row.sample_id == f"s{done.position}" for done in found)


def test_as_many_at_once_as_allowed_and_no_more() -> None:
    together, lock, most = threading.Barrier(3), threading.Lock(), [0, 0]

    def act(item: Item, cancel: threading.Event) -> ItemOutcome:
        with lock:
            most[0] += 1
            most[1] = max(most)
        together.wait(GIVE_UP_S)
        with lock:
            most[0] -= 1
        return answered(item)

    assert len(outcomes(an_engine(act, in_flight=3), some_items(12))) == 12
    assert most[1] == 3


def test_items_are_taken_one_by_one_as_there_is_room() -> None:
    taken: list[int] = []
    go = threading.Event()

    def feed() -> Iterator[Item]:
        for item in some_items(50):
            taken.append(item.position)
            yield item

    def act(item: Item, cancel: threading.Event) -> ItemOutcome:
        go.wait(GIVE_UP_S)
        return answered(item)

    engine = an_engine(act, in_flight=2).run(feed(), threading.Event())
    threading.Timer(0.05, go.set).start()
    next(engine)
    engine.close()
    assert len(taken) < 50


def test_a_run_that_hangs_fails_at_its_deadline_and_the_others_go_on(impatient: None) -> None:
    let_go, came_back = threading.Event(), threading.Event()

    def act(item: Item, cancel: threading.Event) -> ItemOutcome:
        if item.position == 3:
            let_go.wait(GIVE_UP_S)
            came_back.set()
        return answered(item)

    found = outcomes(an_engine(act, in_flight=2, deadline_s=0.05), some_items(30))
    assert sorted(done.position for done in found) == list(range(30))
    (late,) = [done for done in found if done.row.failure]
    assert (late.position, late.row.failure, late.row.score) == (3, "deadline", 0.0)
    assert late.row.message == "no answer within 0.05 s" and late.trace is None
    let_go.set()
    assert came_back.wait(GIVE_UP_S)


def test_the_answer_of_a_run_past_its_deadline_is_dropped() -> None:
    def act(item: Item, cancel: threading.Event) -> ItemOutcome:
        if item.position == 0:
            cancel.wait(GIVE_UP_S)  # set at the deadline
        return answered(item)

    found = outcomes(an_engine(act, in_flight=1, deadline_s=0.05), some_items(20))
    assert len(found) == 20
    assert [done.row.failure for done in found if done.position == 0] == ["deadline"]


def test_a_thread_that_hangs_is_replaced(impatient: None) -> None:
    hanging, let_go = [0], threading.Event()

    def act(item: Item, cancel: threading.Event) -> ItemOutcome:
        if item.position < 4:
            hanging[0] += 1
            let_go.wait(GIVE_UP_S)
        return answered(item)

    try:
        found = outcomes(an_engine(act, in_flight=2, deadline_s=0.05), some_items(8))
    finally:
        let_go.set()
    assert hanging[0] == 4 and len(found) == 8
    assert sum(done.row.failure == "deadline" for done in found) == 4


def test_what_a_run_past_its_deadline_used_is_kept() -> None:
    class Spending:
        def answer(self, item: Item, cancel: threading.Event, usage: UsageMeter) -> None:
            usage.add(Completion("x", 100, 20, cost_usd=0.25))
            cancel.wait(GIVE_UP_S)

    engine = LocalEngine(Spending(), Bounds(1, 0.05))  # type: ignore[arg-type]
    (done,) = outcomes(engine, some_items(1))
    assert done.row.failure == "deadline"
    assert (done.row.usage.llm_calls, done.row.usage.cost_usd) == (1, 0.25)


def test_stopping_cancels_what_is_under_way_and_yields_no_more() -> None:
    stop, cancelled = threading.Event(), []

    def act(item: Item, cancel: threading.Event) -> ItemOutcome | None:
        if item.position == 0:
            return answered(item)
        cancelled.append(cancel.wait(GIVE_UP_S))
        return None

    run = an_engine(act, in_flight=3).run(some_items(50), stop)
    assert next(run).position == 0
    stop.set()
    assert list(run) == []
    assert cancelled and all(cancelled) and not sample_threads()


def test_closing_the_run_early_leaves_no_thread() -> None:
    def act(item: Item, cancel: threading.Event) -> ItemOutcome | None:
        if item.position:
            cancel.wait(GIVE_UP_S)
        return answered(item)

    run = an_engine(act).run(some_items(50), threading.Event())
    next(run)
    run.close()
    assert not sample_threads()


def test_a_feed_that_raises_ends_the_run_with_its_error() -> None:
    def feed() -> Iterator[Item]:
        yield from some_items(3)
        raise LookupError("the list is broken")

    with pytest.raises(LookupError, match="the list is broken"):
        outcomes(an_engine(in_flight=2), feed())
    assert not sample_threads()


@pytest.mark.parametrize("error", [SystemExit(3), BaseException("panic"), RuntimeError("odd")])
def test_an_exception_nobody_expects_fails_its_item_alone(error: BaseException) -> None:
    """Panics of compiled extensions are no ``Exception``."""

    def act(item: Item, cancel: threading.Event) -> ItemOutcome:
        if item.position == 2:
            raise error
        return answered(item)

    found = outcomes(an_engine(act, in_flight=2), some_items(10))
    assert sorted(done.position for done in found) == list(range(10))
    (failed,) = [done for done in found if done.row.failure]
    assert (failed.position, failed.row.failure) == (2, "internal")
    assert type(error).__name__ in str(failed.row.message)


def test_threads_that_ended_are_forgotten() -> None:
    def act(item: Item, cancel: threading.Event) -> None:
        cancel.wait(GIVE_UP_S)

    engine = an_engine(act, in_flight=2, deadline_s=0.001)
    run = engine.run(some_items(12), threading.Event())
    for _ in range(11):
        next(run)
    pool = run.gi_frame.f_locals["self"]
    assert len(pool._threads) < 10
    run.close()


def test_no_more_outcomes_wait_than_a_few_for_each_thread() -> None:
    """Where storing is slower than answering, answering waits."""
    started = []

    def act(item: Item, cancel: threading.Event) -> ItemOutcome:
        started.append(item.position)
        return answered(item)

    run = an_engine(act, in_flight=2).run(some_items(500), threading.Event())
    next(run)
    threading.Event().wait(0.3)
    assert len(started) < 30
    assert len(list(run)) == 499
