"""Answering of many samples: stores each result at once, resumes, keeps a budget, tells progress.

`Campaign.of` loads the models and describes the run. `Campaign.answer` opens the folder's store and
calls `run`, which feeds an engine with the items that the store lacks while the budget allows, and
stores each outcome before it awaits the next. Commands that keep something else than scores
(`viper apply`, workflows of agents) give `run` a store and an engine of their own.
"""

from __future__ import annotations

import ctypes
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from viper.data.sample import Sample
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import Engine, Item, SampleRunner, Work, items
from viper.evaluate.evaluation import Evaluation, manifest_of
from viper.evaluate.metrics import Metric, metric
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.reasoner import Reasoner, RunOptions
from viper.strategies.base import Components

# Samples under way at the same time, where nobody chose: enough for batches of the models, and few
# enough that their pictures fit in memory.
IN_FLIGHT = 16

# Media in the cache beyond one for every sample under way, for those that are read ahead.
_MORE_MEDIA = 8

# Seconds between checks whether the run was stopped, while an item waits for room in the budget.
_LOOK_EVERY_S = 0.2

# Results between two returns of free memory to the system: a return takes milliseconds, so each
# result would pay for it, and 200 results free too little to matter.
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
        calls = llm_calls + (under_way + 1) * self.calls_an_item
        return self.llm_calls is None or calls <= self.llm_calls


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
        usage = result.usage
        self.count(result.failure, 1, result.score, usage.cost_usd or 0.0, usage.llm_calls)

    def count(
        self, failure: str | None, number: int, score: float, cost_usd: float, llm_calls: int
    ) -> None:
        """Count results of one failure, or of none, by their sums."""
        self.done += number
        self.score += score
        self.cost_usd += cost_usd
        self.llm_calls += llm_calls
        if failure is not None:
            self.failures[failure] += number


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

    def add(self, position: int, result: SampleResult, trace: Any) -> None:
        """Store a result; once this returns, a kill of the process cannot undo it.

        Args:
            trace: what the runner kept beside the row.
        """


def run(
    engine: Engine,
    todo: Sequence[Item],
    store: ResultStore,
    *,
    budget: Budget = UNBOUNDED,
    on_done: Callable[[SampleResult, RunProgress], None] = lambda row, running: None,
    stop: threading.Event | None = None,
) -> RunEnd:
    """Answer the items that the store lacks. Each result is stored before the next one is awaited.

    An exception, Ctrl-C among them, cancels the items under way, stores those that have ended, and
    passes on. The same call goes on from there.

    Args:
        engine: answers items.
        todo: everything the whole run has to do, see :func:`items`.
        store: gets the rows; those it has are not done again.
        budget: past it no further item is begun; earlier sessions count.
        on_done: called after each row that is new.
        stop: set it to end the session early, as an exception does; it is set by one, too.

    Raises:
        StoreError: a row cannot be stored, as on a full disk.
    """
    running = RunProgress(len(todo))
    if isinstance(store, RunStore):
        for totals in store.totals():
            running.count(*totals)
    else:
        for result in store.rows():
            running.add(result)
    stop, exhausted = stop or threading.Event(), threading.Event()
    begun, counting, stored = 0, threading.Condition(), set(store.done())
    upcoming = deque(item for item in todo if item.key not in stored)
    stored.clear()  # of a large run some hundred megabytes
    driver = threading.get_ident()

    def feed() -> Iterator[Item]:
        """Yield items while there is room.

        Wait for items under way that may leave room, as most take fewer requests than they may. An
        engine that takes items in the driver's thread cannot wait: outcomes arrive there.
        """
        nonlocal begun
        while upcoming and not stop.is_set():
            with counting:
                under_way = begun - running.fresh
                if not budget.allows(running.cost_usd, running.llm_calls, under_way):
                    could_fit = budget.allows(running.cost_usd, running.llm_calls, 0)
                    if not under_way or not could_fit or threading.get_ident() == driver:
                        exhausted.set()
                        return
                    counting.wait(_LOOK_EVERY_S)
                    continue
                begun += 1
            yield upcoming.popleft()

    with closing(engine.run(feed(), stop, upcoming)) as outcomes:
        try:
            for done in outcomes:
                store.add(done.position, done.row, done.trace)
                with counting:
                    running.add(done.row)
                    running.fresh += 1
                    counting.notify_all()
                if running.fresh % _GIVE_BACK_EVERY == 0:
                    # free memory goes back to the system if the C library supports it (glibc)
                    with suppress(OSError, AttributeError):
                        ctypes.CDLL(None).malloc_trim(0)
                on_done(done.row, running)
        except BaseException:
            stop.set()
            for done in outcomes:
                with suppress(Exception):  # the first error is the one to report
                    store.add(done.position, done.row, done.trace)
            raise
    return RunEnd("budget" if exhausted.is_set() else "complete", running)


@dataclass(frozen=True)
class SampledEvaluation:
    """Evaluation with its samples, which are generated or read once for many runs."""

    evaluation: Evaluation
    samples: Sequence[Sample]

    @classmethod
    def of(cls, evaluation: Evaluation) -> SampledEvaluation:
        """Read or generate the samples of an evaluation.

        Raises:
            DataError: files are missing or broken, or there are no samples.
        """
        return cls(evaluation, evaluation.samples())

    def under(self, options: RunOptions) -> SampledEvaluation:
        """Return the same samples with other settings."""
        return replace(self, evaluation=replace(self.evaluation, options=options))


# Shows the progress of a run of so many items, of which so many are stored already.
ProgressBar = Callable[[int, int], AbstractContextManager[Callable[[RunProgress], None]]]


@dataclass(frozen=True)
class Campaign:
    """Items to answer by one reasoner, and the manifest of their run.

    Attributes:
        evaluation: holds the settings of every run and the time limit of a sample.
        manifest: names the metric.
        todo: everything that the whole run has to do.
    """

    reasoner: Reasoner
    evaluation: Evaluation
    manifest: Manifest
    todo: Sequence[Item]

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        samples: Sequence[Sample],
        reasoner: Reasoner,
        document: Mapping[str, Any],
        execution: Mapping[str, Any],
    ) -> Campaign:
        """Load the models and describe the run; see :func:`manifest_of`.

        Raises:
            UnknownNameError: there is no such metric; no model is loaded.
        """
        metric(evaluation.metric)
        bound_arenas()
        manifest = manifest_of(evaluation, samples, reasoner, document, execution)
        return cls(reasoner, evaluation, manifest, items(samples, evaluation.seeds))

    def runner(self, in_flight: int, judge: Metric | None = None) -> SampleRunner:
        """Build what answers one item.

        Args:
            judge: metric to use instead of the manifest's.
        """
        judge, room = judge or metric(self.manifest.metric), in_flight + _MORE_MEDIA
        options, programs = self.evaluation.options, self.evaluation.programs
        return SampleRunner.with_cache(self.reasoner, judge, options, room, programs=programs)

    def engine(self, in_flight: int, judge: Metric | None = None) -> LocalEngine:
        """Build an engine of threads; arguments as for :meth:`runner`."""
        bounds = Bounds(in_flight, self.evaluation.deadline_s)
        return LocalEngine(self.runner(in_flight, judge), bounds)

    def work(self, in_flight: int) -> Work:
        """Return what there is to answer, with the engine of this process."""
        facts = self.manifest.to_json()
        return Work(self.todo, self.engine(in_flight), facts, self.reasoner.close)

    def answer(
        self,
        folder: Path,
        engine: Engine,
        budget: Budget = UNBOUNDED,
        progress: ProgressBar = lambda total, done: nullcontext(lambda running: None),
    ) -> tuple[list[SampleResult], RunEnd]:
        """Answer what the folder lacks, and return its results in the order of the items.

        Results beyond the budget, which counts all sessions, are missing.

        Raises:
            UsageError: the folder holds a run of another configuration.
        """
        with RunStore.resume(folder, self.manifest) as store:
            with progress(len(self.todo), len(store.done())) as show:
                ended = run(
                    engine, self.todo, store, budget=budget, on_done=lambda _, done: show(done)
                )
            results = {(result.sample_id, result.seed): result for result in store.rows()}
        return [results[item.key] for item in self.todo if item.key in results], ended


def answer_all(
    components: Components,
    sampled: SampledEvaluation,
    folder: Path,
    document: Mapping[str, Any],
    on_done: Callable[[RunProgress], None] = lambda running: None,
    budget: Budget = UNBOUNDED,
) -> list[SampleResult]:
    """Answer the samples by components that stay open; see :meth:`Campaign.answer`.

    Args:
        document: the profile as JSON values, for the run's manifest.
        on_done: called after every new result.
    """
    reasoner = Reasoner(components, preload=False)
    execution = {"engine": "local", "workers": IN_FLIGHT}
    campaign = Campaign.of(sampled.evaluation, sampled.samples, reasoner, document, execution)
    engine = campaign.engine(IN_FLIGHT)
    return campaign.answer(folder, engine, budget, lambda total, done: nullcontext(on_done))[0]


# Heaps of one process. glibc's default is eight for each core, and each keeps what was freed in it:
# the memory of a long evaluation grew all the time (`benchmarks/eval_memory.py`).
_ARENAS = 2

# From glibc's ``malloc.h``.
_M_ARENA_MAX = -8


def bound_arenas(most: int = _ARENAS) -> bool:
    """Limit the heaps of this process. Call this before threads start.

    Returns:
        Whether the C library took it; other libraries than glibc do nothing.
    """
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, most))
    except (OSError, AttributeError):
        return False
