"""Storing as it comes, going on, budgets, and everything that ends a run early."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import pytest
from engine_doubles import a_sample, an_engine, answered, some_items
from run_samples import a_manifest, failed_row

from viper.data.sample import Sample
from viper.errors import StoreError
from viper.evaluate.campaign import Budget, RunProgress, run
from viper.evaluate.engines.sample_runner import Item, ItemOutcome, items
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult


@pytest.fixture
def store(tmp_path: Path) -> Iterable[RunStore]:
    with RunStore.create(tmp_path / "run", a_manifest()) as opened:
        yield opened


class InTurn:
    """An engine that answers one item after another, in the thread of the run."""

    def __init__(self, cost_usd: float | None = None) -> None:
        self.cost_usd = cost_usd
        self.asked: list[int] = []
        self.stopped = threading.Event()

    def run(
        self, items: Iterable[Item], stop: threading.Event, upcoming: Sequence[Item] = ()
    ) -> Generator[ItemOutcome, None, None]:
        self.stopped = stop
        for item in items:
            self.asked.append(item.position)
            yield answered(item, self.cost_usd)


def test_samples_of_one_picture_stand_together_and_positions_are_fixed() -> None:
    pictures = ["a", "b", "a", "", "c", "b", ""]
    samples: list[Sample] = [
        a_sample(n, files=(name,) if name else ()) for n, name in enumerate(pictures)
    ]
    found = items(samples, (7, 8))
    assert [item.position for item in found] == list(range(14))
    assert [item.sample.sample_id for item in found[::2]] == [
        "s0", "s2", "s1", "s5", "s3", "s4", "s6",
    ]  # fmt: skip
    assert [item.seed for item in found] == [7, 8] * 7
    assert [item.key for item in items(samples, (7, 8))] == [item.key for item in found]


def test_each_row_is_stored_before_the_next_is_waited_for(store: RunStore) -> None:
    seen = []
    ended = run(
        InTurn(), some_items(5), store, on_done=lambda row, so_far: seen.append(len(store.done()))
    )
    assert seen == [1, 2, 3, 4, 5]
    assert (ended.reason, ended.running.done, ended.running.mean) == ("complete", 5, 1.0)


def test_rows_are_read_in_order_whatever_order_they_came_in(store: RunStore) -> None:
    run(an_engine(in_flight=8), some_items(60), store)
    assert [row.sample_id for row in store.rows()] == [f"s{n}" for n in range(60)]


def test_what_is_stored_is_not_done_again_and_counts(store: RunStore) -> None:
    todo = some_items(6)
    store.add(1, failed_row(1, sample_id="s1", seed=0), None)
    store.add(4, answered(todo[4], cost_usd=2.0).row)
    engine = InTurn(cost_usd=0.5)
    ended = run(engine, todo, store)
    assert engine.asked == [0, 2, 3, 5]
    running = ended.running
    assert (running.done, running.fresh, running.total, running.failed) == (6, 4, 6, 1)
    assert running.mean == pytest.approx(5 / 6)
    assert running.cost_usd == pytest.approx(4.0 + 0.001)


def test_a_complete_run_asks_nothing(store: RunStore) -> None:
    run(InTurn(), some_items(3), store)
    engine = InTurn()
    ended = run(engine, some_items(3), store)
    assert engine.asked == [] and (ended.reason, ended.running.fresh) == ("complete", 0)


def test_a_budget_that_is_spent_begins_no_further_item(store: RunStore) -> None:
    ended = run(InTurn(cost_usd=1.0), some_items(9), store, budget=Budget(usd=3.5))
    assert (ended.reason, ended.running.done, ended.running.cost_usd) == ("budget", 4, 4.0)
    again = run(InTurn(cost_usd=1.0), some_items(9), store, budget=Budget(usd=4.0))
    assert (again.reason, again.running.fresh) == ("budget", 0)
    more = run(InTurn(cost_usd=1.0), some_items(9), store, budget=Budget(usd=100.0))
    assert (more.reason, more.running.done) == ("complete", 9)


def test_a_budget_spent_by_the_last_item_is_a_complete_run(store: RunStore) -> None:
    assert (
        run(InTurn(cost_usd=1.0), some_items(4), store, budget=Budget(usd=4.0)).reason == "complete"
    )


@pytest.mark.parametrize("in_flight", [1, 8])
def test_a_bound_of_calls_holds_exactly_whatever_is_under_way(
    store: RunStore, in_flight: int
) -> None:
    engine = an_engine(in_flight=in_flight)
    ended = run(engine, some_items(20), store, budget=Budget(llm_calls=7))
    assert (ended.reason, ended.running.llm_calls, ended.running.done) == ("budget", 7, 7)
    again = run(engine, some_items(20), store, budget=Budget(llm_calls=7))
    assert (again.reason, again.running.fresh) == ("budget", 0)
    more = run(engine, some_items(20), store, budget=Budget(llm_calls=20))
    assert (more.reason, more.running.llm_calls) == ("complete", 20)


def test_an_item_that_could_pass_the_bound_is_not_begun(store: RunStore) -> None:
    budget = Budget(llm_calls=7, calls_an_item=3)
    ended = run(InTurn(), some_items(9), store, budget=budget)
    assert (ended.reason, ended.running.llm_calls) == ("budget", 5)


def test_what_an_unpriced_model_answers_costs_no_budget(store: RunStore) -> None:
    assert run(InTurn(None), some_items(4), store, budget=Budget(usd=0.01)).reason == "complete"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("odd")])
def test_an_exception_stops_the_engine_and_keeps_what_is_stored(
    store: RunStore, error: BaseException
) -> None:
    engine = InTurn()

    def on_done(row: SampleResult, running: RunProgress) -> None:
        if running.done == 3:
            raise error

    with pytest.raises(type(error)):
        run(engine, some_items(9), store, on_done=on_done)
    assert engine.stopped.is_set() and len(store.done()) == 3
    assert run(InTurn(), some_items(9), store).running.fresh == 6


def test_a_full_disk_ends_the_run_and_is_gone_on_from(store: RunStore) -> None:
    store._connection.execute("PRAGMA max_page_count = 44")
    big = [Item(n, a_sample(n, text="x" * 900), 0) for n in range(60)]

    class Wordy(InTurn):
        def run(
            self, items: Iterable[Item], stop: threading.Event, upcoming: Sequence[Item] = ()
        ) -> Generator[ItemOutcome, None, None]:
            for done in super().run(items, stop):
                yield ItemOutcome(
                    done.position, SampleResult(done.row.sample_id, 0, 1.0, text="x" * 900)
                )

    with pytest.raises(StoreError, match="disk is full .*continue with --resume"):
        run(Wordy(), big, store)
    stored = len(store.done())
    assert 5 < stored < 60
    store._connection.execute("PRAGMA max_page_count = 4000")
    assert run(Wordy(), big, store).running.fresh == 60 - stored


def test_failures_are_counted_by_kind() -> None:
    running = RunProgress(4)
    for number, kind in enumerate(["runtime", "media", "runtime"]):
        running.add(failed_row(number, kind))
    assert running.failures == {"runtime": 2, "media": 1} and running.mean == 0.0
    assert RunProgress(4).mean == 0.0
