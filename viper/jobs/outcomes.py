"""What each candidate answers about each labelled case: run once, kept in ``outcomes.jsonl``.

:func:`run_candidates` runs programs on the cases that the file lacks, picture by picture, so that
neighbours share what models saw. The rows do not depend on labels: whether an answer is right is
decided when they are read, and a corrected label needs no run.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from viper.data.sample import Sample
from viper.evaluate.campaign import IN_FLIGHT, ProgressBar, run
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import (
    SHARED_MEDIA_BYTES,
    Engine,
    Item,
    ItemOutcome,
    SampleRunner,
    items,
)
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.jobs.candidates import Candidate
from viper.jobs.cases import Label
from viper.reasoner import Reasoner, RunOptions
from viper.storage.cache import ComputeCache
from viper.storage.files import file_errors
from viper.storage.json_lines import dumps, read_lines
from viper.strategies.base import Components, UsageMeter

OUTCOMES = "outcomes.jsonl"

# Failures of machines and networks, not of programs: the next session tries again.
_PASSING = {"model", "memory_full", "media", "internal", "store", "sandbox_host", "cancelled"}

# Candidates that run on all cases together, so that a picture is read once for all of them.
_TOGETHER = 48

# The same where time is short, so that it is looked at more often.
_TOGETHER_IN_TIME = 8


@dataclass(frozen=True)
class Outcome:
    """Answer of a candidate about a case; None with a kind of failure."""

    candidate: str
    case: str
    answer: Prediction | None = None
    failure: str | None = None


class Outcomes:
    """Outcomes by candidate and case. Implements :class:`viper.evaluate.campaign.ResultStore`."""

    def __init__(self, folder: Path) -> None:
        path = folder / OUTCOMES
        read = read_lines(path, Outcome, "an outcome")
        kept = (each for each in read if each.failure not in _PASSING)
        self._by_key = {(each.candidate, each.case): each for each in kept}
        with file_errors(path):
            self._file = path.open("a", encoding="ascii")
        self._file.write("\n")  # ends a line that a killed process left half

    def close(self) -> None:
        self._file.close()

    def answers(self, candidate: str, labels: Sequence[Label]) -> list[Prediction | None]:
        """Return what a candidate answers about each case; None for no answer."""
        return [self._by_key[candidate, label.case].answer for label in labels]

    def has(self, candidate: str, case: str) -> bool:
        return (candidate, case) in self._by_key

    def rows(self) -> Iterable[SampleResult]:
        """Return nothing: each call of :func:`run_candidates` counts what it lacks."""
        return ()

    def done(self) -> set[tuple[str, int]]:
        return set()

    def add(self, position: int, result: SampleResult, trace: Any) -> None:
        """Keep an outcome; once this returns, a kill of the process cannot undo it."""
        candidate, _, case = result.sample_id.partition("/")
        lost = result.failure == "crash" and result.program is None  # an actor, not the program
        failure = "internal" if lost else result.failure
        outcome = Outcome(candidate, case, result.prediction, failure)
        self._file.write(dumps(outcome) + "\n")
        self._file.flush()
        self._by_key[candidate, case] = outcome


@dataclass(frozen=True)
class _Attempt(Sample):
    """A labelled case for one candidate."""

    candidate: Candidate = Candidate("")

    @classmethod
    def of(cls, candidate: Candidate, label: Label) -> _Attempt:
        plain = vars(label.sample()) | candidate.asked
        return cls(**plain | {"sample_id": f"{candidate.id}/{label.case}", "candidate": candidate})


@dataclass(frozen=True)
class _CandidateRunner:
    """Runs candidates. Implements :class:`viper.evaluate.engines.sample_runner.ItemRunner`."""

    components: Components
    media: ComputeCache

    def answer(
        self, item: Item, cancel: threading.Event, usage: UsageMeter | None = None
    ) -> ItemOutcome | None:
        assert isinstance(item.sample, _Attempt)
        outcome = self._runner(item.sample.candidate).answer(item, cancel, usage)
        return outcome and replace(outcome, trace=None)

    def ahead(self, in_flight: int) -> int:
        return self._runner(Candidate("")).ahead(in_flight)

    def prefetch(self, item: Item) -> None:
        self._runner(Candidate("")).prefetch(item)

    def _runner(self, candidate: Candidate) -> SampleRunner:
        components = self.components.with_thresholds(candidate.thresholds)
        # self-tuning would hide what the thresholds do
        options = RunOptions(self_tune=False, checks=False, on_misfit="ask")
        reasoner, programs = Reasoner(components, preload=False), {"": candidate.program}
        return SampleRunner(reasoner, metric("answered"), options, self.media, programs)


def candidate_engine(components: Components, in_flight: int = IN_FLIGHT) -> LocalEngine:
    """Return an engine that runs candidates in this process, on so many cases at once."""
    media = ComputeCache(2 * in_flight, SHARED_MEDIA_BYTES)
    return LocalEngine(_CandidateRunner(components, media), Bounds(in_flight))


def run_candidates(
    engine: Engine,
    candidates: Sequence[Candidate],
    labels: Sequence[Label],
    outcomes: Outcomes,
    progress: ProgressBar,
    until: float = math.inf,
) -> list[Candidate]:
    """Run each candidate on each case that has no outcome of it yet.

    Args:
        engine: that of :func:`candidate_engine`, or of actors that have it.
        until: time of the monotonic clock after which no further candidates begin.

    Returns:
        The candidates that have an outcome of each case.

    Raises:
        StoreError: an outcome cannot be kept.
    """
    lacking = [
        each for each in candidates if any(not outcomes.has(each.id, one.case) for one in labels)
    ]
    together = _TOGETHER if until == math.inf else _TOGETHER_IN_TIME
    batches = [
        [
            _Attempt.of(candidate, label)
            for label in labels
            for candidate in lacking[first : first + together]
            if not outcomes.has(candidate.id, label.case)
        ]
        for first in range(0, len(lacking), together)
    ]
    total, before = sum(map(len, batches)), 0
    with progress(total, 0) as show:
        for batch in batches:
            if time.monotonic() > until:
                break

            def on_done(row: SampleResult, running: Any, before: int = before) -> None:
                show(replace(running, total=total, done=before + running.fresh))

            run(engine, items(batch, (0,)), outcomes, on_done=on_done)
            before += len(batch)
    return [
        candidate
        for candidate in candidates
        if all(outcomes.has(candidate.id, label.case) for label in labels)
    ]
