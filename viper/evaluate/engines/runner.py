"""Driver of an engine: answers the missing items of a run within its budget and stores them."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal, Protocol

from viper.data.sample import Sample
from viper.evaluate.engines.sample_runner import Engine, Item
from viper.evaluate.sample_result import SampleResult
from viper.schema import Trace

# Results between two returns of free memory to the system, which take milliseconds.
_GIVE_BACK_EVERY = 200


@dataclass(frozen=True)
class Budget:
    """Limits of a whole run, earlier sessions included. None sets no limit.

    Attributes:
        usd: once programs cost this much, no item begins; items under way finish.
        llm_calls: requests to the program writer. No item begins that could exceed it. Items under
            way count with all requests they may make, so that the limit holds exactly.
        calls_an_item: largest number of requests of one item.
    """

    usd: float | None = None
    llm_calls: int | None = None
    calls_an_item: int = 1

    def allows(self, spent_usd: float, llm_calls: int, under_way: int) -> bool:
        """Return whether another item may begin."""
        if self.usd is not None and spent_usd >= self.usd:
            return False
        if self.llm_calls is None:
            return True
        return llm_calls + (under_way + 1) * self.calls_an_item <= self.llm_calls


UNBOUNDED = Budget()


@dataclass
class RunProgress:
    """Progress of a run, earlier sessions included.

    Attributes:
        score: sum of the headline scores of ``done`` results.
        failures: kinds of failure so far.
        cost_usd: cost of programs so far, as far as prices are known.
        llm_calls: requests to the program writer so far.
        fresh: results of this session, for the rate.
    """

    total: int
    done: int = 0
    score: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    llm_calls: int = 0
    fresh: int = 0

    @property
    def mean(self) -> float:
        """Return the mean headline score so far. Failed samples count as 0."""
        return self.score / self.done if self.done else 0.0

    @property
    def failed(self) -> int:
        """Return the number of samples without an answer so far."""
        return self.failures.total()

    def add(self, result: SampleResult) -> None:
        """Count one result."""
        self.done += 1
        self.score += result.score
        self.cost_usd += result.usage.cost_usd or 0.0
        self.llm_calls += result.usage.llm_calls
        if result.failure is not None:
            self.failures[result.failure] += 1


@dataclass(frozen=True)
class RunEnd:
    """How a session of a run ended."""

    reason: Literal["complete", "budget"]
    running: RunProgress


class ResultStore(Protocol):
    """Place of a run's results, such as :class:`viper.evaluate.runs.store.RunStore`."""

    def rows(self) -> Iterable[SampleResult]:
        """Return the results of earlier sessions."""

    def done(self) -> Collection[tuple[str, int]]:
        """Return the keys of the items that need no answer; see :attr:`Item.key`."""

    def add(self, position: int, result: SampleResult, trace: Trace | None) -> None:
        """Store a result. Once this returns, a kill of the process cannot undo it."""


def items(samples: Sequence[Sample], seeds: Sequence[int]) -> list[Item]:
    """Return all items of a run. Samples of the same files are next to each other.

    Neighbours share what was read and computed of their picture. The order, and so each
    item's position, depends on nothing but the samples and seeds.
    """
    groups: dict[tuple[str, ...], list[Sample]] = {}
    for number, sample in enumerate(samples):
        groups.setdefault(sample.files or (f"#{number}",), []).append(sample)
    ordered = [sample for group in groups.values() for sample in group]
    return [
        Item(position, sample, seed)
        for position, (sample, seed) in enumerate(
            (sample, seed) for sample in ordered for seed in seeds
        )
    ]


def run(
    engine: Engine,
    todo: Sequence[Item],
    store: ResultStore,
    *,
    budget: Budget = UNBOUNDED,
    on_done: Callable[[SampleResult, RunProgress], None] | None = None,
) -> RunEnd:
    """Answer the items that the store lacks. Each result is stored before the next one is awaited.

    An exception, Ctrl-C among them, cancels what is under way and passes on; what was
    stored stays, and the same call goes on from there.

    Args:
        engine: answers items.
        todo: everything the whole run has to do, see :func:`items`.
        store: gets the rows; those it has are not done again.
        budget: past it no further item is begun; earlier sessions count.
        on_done: called after each row that is new.

    Raises:
        StoreError: a row cannot be stored, as on a full disk.
    """
    running = RunProgress(len(todo))
    for result in store.rows():
        running.add(result)
    stop, exhausted = threading.Event(), threading.Event()
    stored, begun, counting = store.done(), 0, threading.Lock()
    upcoming = deque(item for item in todo if item.key not in stored)

    def feed() -> Iterator[Item]:
        nonlocal begun
        while upcoming:
            with counting:
                under_way = begun - running.fresh
                if not budget.allows(running.cost_usd, running.llm_calls, under_way):
                    exhausted.set()
                    return
                begun += 1
            yield upcoming.popleft()

    with closing(engine.run(feed(), stop, upcoming)) as outcomes:
        try:
            for done in outcomes:
                store.add(done.position, done.row, done.trace)
                with counting:
                    running.add(done.row)
                    running.fresh += 1
                if running.fresh % _GIVE_BACK_EVERY == 0:
                    give_back()
                if on_done is not None:
                    on_done(done.row, running)
        finally:
            stop.set()
    return RunEnd("budget" if exhausted.is_set() else "complete", running)


# glibc gives each thread an arena of its own, and what one frees others cannot use: memory then
# grows over an evaluation. Two let threads allocate at the same time.
ARENAS = 2

# From glibc's ``malloc.h``.
_M_ARENA_MAX = -8


def bound_arenas(most: int = ARENAS) -> bool:
    """Limit the heaps of this process. Call this before threads start.

    Returns:
        Whether the C library took it; other libraries than glibc do nothing.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, most))
    except (OSError, AttributeError):
        return False


def give_back() -> None:
    """Return free memory to the system if the C library supports it (glibc)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
