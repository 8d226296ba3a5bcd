"""Answering and scoring of one sample. Every failure becomes a result.

`SampleRunner.stream` reads the sample's media from a shared cache, answers with the reasoner, and
has the metric score the answer (`_score`). An error becomes a trace with the failure, which is
scored as well. An `Engine` calls `answer` for many items at once; `ProgramRunner` runs one given
program instead.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Protocol, Self

from viper.data.sample import Sample, kind_of
from viper.errors import CancelledError, ViperError
from viper.evaluate.metrics import JUDGES, Metric
from viper.evaluate.metrics.editing import NeedsEditJudge
from viper.evaluate.sample_result import REFUSALS, Prediction, SampleResult
from viper.models.media import Media, media_from
from viper.models.vision.roles import Pixels
from viper.reasoner import Reasoner, RunOptions
from viper.run_result import RunResult
from viper.schema import Failure, Trace, Trial, Usage
from viper.storage.cache import ComputeCache
from viper.strategies.base import UsageMeter


@dataclass(frozen=True)
class Item:
    """One sample under one seed; ``position`` is its place in the whole run."""

    position: int
    sample: Sample
    seed: int

    @property
    def key(self) -> tuple[str, int]:
        """Return the sample id and the seed, which identify a result in the run store."""
        return self.sample.sample_id, self.seed


@dataclass(frozen=True)
class ItemOutcome:
    """Outcome of one item.

    ``trace`` is what the runner keeps beside the row: a :class:`viper.schema.Trace`, None if the
    media could not be read, or a record of its own.
    """

    position: int
    row: SampleResult
    trace: Any = None


def items(samples: Sequence[Sample], seeds: Sequence[int]) -> list[Item]:
    """Return all items of a run. Samples of the same files are next to each other.

    Neighbours share what was read and computed of their picture. The order, and so each
    item's position, depends on nothing but the samples and seeds.
    """
    groups: dict[tuple[str, ...], list[Sample]] = {}
    for number, sample in enumerate(samples):
        groups.setdefault(sample.files or (f"#{number}",), []).append(sample)
    ordered = [sample for group in groups.values() for sample in group]
    pairs = enumerate(product(ordered, seeds))
    return [Item(position, sample, seed) for position, (sample, seed) in pairs]


Outcomes = Generator[ItemOutcome, None, None]


class Engine(Protocol):
    """Protocol of what answers many items at once, in any order."""

    def run(
        self, items: Iterable[Item], stop: threading.Event, upcoming: Sequence[Item] = ()
    ) -> Outcomes:
        """Yield each item's outcome as soon as it is ready. Never raise for a single item.

        Args:
            items: taken one by one as there is room, so that the caller may end them early.
            stop: set it to stop at once: items under way are cancelled, and only those that have
                ended are still yielded.
            upcoming: the items that were not taken yet, in order; taking one removes it. An engine
                may read their media ahead.
        """


@dataclass(frozen=True)
class Work:
    """Items with the engine that answers them, in the driver's process or in an actor's.

    Attributes:
        items: in the driver's order, each at its position; none if the driver sends them whole.
        facts: JSON values that are the same in the driver and in every actor.
        close: ends what the engine answers with.
    """

    items: Sequence[Item]
    engine: Engine
    facts: Mapping[str, Any]
    close: Callable[[], None]


class ItemRunner(Protocol):
    """Protocol of what answers one item, in several threads at once."""

    def answer(
        self, item: Item, cancel: threading.Event, usage: UsageMeter | None = None
    ) -> ItemOutcome | None:
        """See :meth:`SampleRunner.answer`."""

    def ahead(self, in_flight: int) -> int:
        """Return the number of items whose media may be read ahead."""

    def prefetch(self, item: Item) -> None:
        """Read the item's media ahead. Errors are left to :meth:`answer`."""


# Seven photographs of 12 megapixels or hundreds of web size: samples are read ahead as far.
SHARED_MEDIA_BYTES = 256 << 20

_NO_ANSWER = Failure("internal", "the strategy gave no answer and no failure")


@dataclass(frozen=True)
class SampleRunner:
    """Answers items with one reasoner. Safe to call from several threads.

    Attributes:
        reasoner: reasoner with the models.
        metric: scores the answers.
        options: settings of every run; task, options, seed and sample id come from the item.
        media: cache of pictures, so that pictures of several samples are read once.
        programs: given programs by the kind of sample, "" for all other kinds. They answer without
            a language model, as ``viper exec`` does.
    """

    reasoner: Reasoner
    metric: Metric
    options: RunOptions
    media: ComputeCache
    programs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def with_cache(
        cls, reasoner: Reasoner, metric: Metric, options: RunOptions, size: int, **more: Any
    ) -> Self:
        """Build a runner with a cache for ``size`` pictures or videos.

        A metric that looks at edited pictures does so with the reasoner's models, unless it was
        given others.
        """
        if isinstance(metric, NeedsEditJudge):
            judge = JUDGES.load(getattr(metric, "judge", "roles"))
            metric = metric.with_judge(judge(reasoner.components.toolbox))
        return cls(reasoner, metric, options, ComputeCache(size, SHARED_MEDIA_BYTES), **more)

    def answer(
        self, item: Item, cancel: threading.Event, usage: UsageMeter | None = None
    ) -> ItemOutcome | None:
        """Return the item's outcome, or None if ``cancel`` was set first.

        Args:
            item: what to answer.
            cancel: set it to give up.
            usage: counts the cost while the item is answered, for callers that give it up.
        """
        events = self.stream(item, cancel, usage)
        return next((event for event in events if isinstance(event, ItemOutcome)), None)

    def stream(
        self, item: Item, cancel: threading.Event, usage: UsageMeter | None = None
    ) -> Iterator[Trial | ItemOutcome]:
        """Yield each Trial as it ends, then the outcome. Arguments as for :meth:`answer`.

        Yields no outcome if ``cancel`` was set first.
        """
        started = time.perf_counter()
        sample, meter, trials = item.sample, usage or UsageMeter(), list[Trial]()
        result: RunResult | None = None
        failure = _NO_ANSWER
        try:
            names = ("task", "options", "like", "fields", "sample_id")
            asked = {name: getattr(sample, name) for name in names}
            options = self.options.changed(**asked, seed=item.seed)
            for event in self._events(sample, options, cancel, meter):
                if isinstance(event, RunResult):
                    result = event
                else:
                    trials.append(event)
                    yield event
        except ViperError as error:
            if isinstance(error, CancelledError) and cancel.is_set():
                return
            failure = Failure(error.code, str(error))
        except Exception as error:  # noqa: BLE001 (boundary: one sample must not end the set)
            failure = Failure("internal", f"{type(error).__name__}: {error}")
        seconds = round(time.perf_counter() - started, 4)
        if result is not None:
            trace = result.trace
            if trace.answer is None and trace.failure is None:
                trace = replace(trace, failure=_NO_ANSWER)
            yield self._score(item, trace, seconds, result.picture)
            return
        components = self.reasoner.components
        settings = self.options.settings(components.settings)
        broken = Trace(
            query=sample.query,
            task=sample.task,
            task_reason="as asked",
            answer=None,
            failure=failure,
            trials=tuple(trials),
            usage=meter.snapshot(),
            seconds=seconds,
            strategy=settings.strategy,
            profile=components.profile_name,
            api=settings.api,
            seed=item.seed,
        )
        yield self._score(item, broken, seconds)

    def ahead(self, in_flight: int) -> int:
        """Return the number of samples whose media may be read ahead.

        Two for each sample under way, but no more than the cache holds beside those under way.
        """
        return max(0, min(2 * in_flight, self.media.room - in_flight))

    def prefetch(self, item: Item) -> None:
        """Read the item's media into the cache. Errors are left to :meth:`answer`."""
        if item.sample.files:
            with contextlib.suppress(BaseException):  # panics are no Exception
                self.media_of(item.sample)

    def _events(
        self, sample: Sample, options: RunOptions, cancel: threading.Event, meter: UsageMeter
    ) -> Iterator[Trial | RunResult]:
        """Answer a sample; see :meth:`viper.reasoner.Reasoner.stream`."""
        media = self.media_of(sample)
        program = self.programs.get(kind_of(sample.groups), self.programs.get(""))
        if program is None:
            yield from self.reasoner.stream(media, sample.text, options, cancel=cancel, usage=meter)
        else:
            yield self.reasoner.execute(program, media, sample.text, options, cancel=cancel)

    def media_of(self, sample: Sample) -> Media:
        """Return the sample's media, from the cache if it was read before."""
        if not sample.files:
            return media_from(sample.load())
        # The files of an edit also name its reference, which is not part of its media.
        key = ("media", sample.media, sample.task == "edit", *sample.files)
        media, _ = self.media.get(key, lambda: media_from(sample.load()))
        assert isinstance(media, Media)
        return media

    def _score(
        self, item: Item, trace: Trace, seconds: float, picture: Pixels | None = None
    ) -> ItemOutcome:
        prediction = None if trace.answer is None else Prediction.of(trace.answer)
        try:
            seen = None if prediction is None else replace(prediction, picture=picture)
            score = self.metric.score(item.sample, seen)
            for name, value in {"the score": score.value, **score.details}.items():
                if not math.isfinite(value):
                    raise ValueError(f"{name} {value} is no number")
        except Exception as error:  # noqa: BLE001 (boundary: a metric must not end the set)
            failure = Failure("internal", f"metric: {type(error).__name__}: {error}")
            return ItemOutcome(item.position, _row(item, trace, failure, seconds), trace)
        row = _row(item, trace, trace.failure if prediction is None else None, seconds)
        value = score.value if row.failure in (None, *REFUSALS) else 0.0  # no fault is right
        judged = replace(row, score=value, details=dict(score.details), prediction=prediction)
        return ItemOutcome(item.position, judged, trace)


def gave_up(
    item: Item, failure: Failure, seconds: float, usage: Usage | None = None
) -> ItemOutcome:
    """Return the outcome of an item that is no longer awaited."""
    result = _row(item, None, failure, seconds)
    return ItemOutcome(item.position, replace(result, usage=usage or result.usage))


def _row(item: Item, trace: Trace | None, failure: Failure | None, seconds: float) -> SampleResult:
    fields: dict[str, Any] = {}
    if trace is not None:
        fallback = [f"fallback:{trace.fallback}"] if trace.fallback else []
        doubts = dict.fromkeys(f"warning:{warning.kind}" for warning in trace.warnings)
        fields = {"program": trace.program, "usage": trace.usage, "marks": (*fallback, *doubts)}
    if failure is not None:
        fields |= {"failure": failure.kind, "message": failure.explained}
    return SampleResult.of(item.sample, item.seed, seconds=seconds, **fields)
