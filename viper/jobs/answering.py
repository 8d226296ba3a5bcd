"""Answers by a fitted job: its program, a confidence from the other programs, and what is withheld.

`JobRunner` answers items like :class:`viper.evaluate.engines.sample_runner.SampleRunner`, without a
language model, and counts what is unlike the labelled cases.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from viper.evaluate.engines.sample_runner import Item, ItemOutcome, SampleRunner
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction
from viper.jobs.job import JobRecord
from viper.reasoner import Reasoner, RunOptions
from viper.storage.cache import ComputeCache
from viper.strategies.base import Components, UsageMeter
from viper.strategies.confidence import UNCALIBRATED, features

# Kind of failure of an answer that is withheld.
DOUBTFUL = "doubtful"

# A word of the question that the models do not know: the labels have said what it means.
_BY_LABELS = frozenset({"warning:unknown_words"})

# Chance of a false alarm about inputs that are like the labelled ones.
_ALARM = 0.01

# Share of the labelled pictures themselves that count as unlike the others, and of all cases that
# may be withheld without a promise.
_USUAL = 0.05


@dataclass
class JobRunner:
    """Answers items with the programs of a job. Safe to call from several threads.

    Attributes:
        runners: one for each kept program, the job's own first.
        seen, unlike, doubtful: inputs so far, those unlike the labelled ones, those withheld.
    """

    record: JobRecord
    runners: list[SampleRunner]
    seen: int = 0
    unlike: int = 0
    doubtful: int = 0
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def of(
        cls, record: JobRecord, components: Components, options: RunOptions, media: ComputeCache
    ) -> JobRunner:
        """Build the runner over loaded components; models and pictures are shared."""
        plain = options.changed(self_tune=False, checks=False, on_misfit="ask")
        runners = []
        for kept in record.kept:
            reasoner = Reasoner(components.with_thresholds(kept.thresholds), preload=False)
            programs = {"": kept.program}
            runners.append(SampleRunner(reasoner, metric("answered"), plain, media, programs))
        return cls(record, runners)

    def answer(
        self, item: Item, cancel: threading.Event, usage: UsageMeter | None = None
    ) -> ItemOutcome | None:
        """See :class:`viper.evaluate.engines.sample_runner.ItemRunner`."""
        first = self.runners[0].answer(item, cancel, usage)
        trace = first.trace if first is not None else None
        if first is None or trace is None or trace.answer is None:
            return first
        answers: list[Prediction | None] = [Prediction.of(trace.answer)]
        for runner in self.runners[1:]:
            other = runner.answer(item, cancel)
            if other is None:
                return None
            given = other.trace.answer if other.trace is not None else None
            answers.append(None if given is None else Prediction.of(given))
        confidence = self.record.confidence(self.record.agreement(answers))
        if (UNCALIBRATED - _BY_LABELS) & features(trace).keys():
            confidence = 0.0  # nothing is known about such answers
        self._look(item)
        answer = replace(trace.answer, confidence=confidence)
        row = replace(first.row, prediction=Prediction.of(answer))
        promise = self.record.promise
        if promise is not None and confidence < promise.limit:
            with self._lock:
                self.doubtful += 1
            message = f"confidence {confidence:.2f}, and {promise.limit:.2f} is needed"
            if promise.limit > 1:
                message = "no confidence is likely to keep the risk that was asked for"
            row = replace(row, failure=DOUBTFUL, message=message, score=0.0)
        return replace(first, row=row, trace=replace(trace, answer=answer))

    def ahead(self, in_flight: int) -> int:
        return self.runners[0].ahead(in_flight)

    def prefetch(self, item: Item) -> None:
        self.runners[0].prefetch(item)

    def _look(self, item: Item) -> None:
        unlike = self.record.likeness.unlike(self.runners[0].media_of(item.sample))
        with self._lock:
            self.seen += 1
            self.unlike += unlike

    def warnings(self) -> Iterator[str]:
        """Yield what tells that the inputs are not like the labelled cases."""
        if self._is_more(self.unlike, _USUAL):
            yield (
                f"{self.unlike} of {self.seen} inputs look unlike the labelled ones, so the "
                "estimate may not hold for them; label some of them with viper review"
            )
        promise = self.record.promise
        if promise is not None and self._is_more(self.doubtful, 1 - promise.answered):
            yield (
                f"{self.doubtful} of {self.seen} answers are doubtful, where "
                f"{1 - promise.answered:.0%} were expected; label some with viper review"
            )

    def _is_more(self, count: int, usual: float) -> bool:
        return is_more(count, self.seen, max(usual, _USUAL), self.record.labelled)


def is_more(count: int, seen: int, usual: float, labelled: int) -> bool:
    """Return whether a count of cases is surely more than the share that labelled ones had of it.

    That share is known from the labels alone: it is beta-distributed, as an order statistic is.
    """
    from scipy.stats import betabinom

    past = usual * labelled
    return bool(seen) and betabinom.sf(count - 1, seen, past + 1, labelled - past + 1) < _ALARM
