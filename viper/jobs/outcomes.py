"""What each candidate answers about each labelled case: run once, kept in ``outcomes.jsonl``.

:func:`run_candidates` runs programs on the cases that the file lacks, picture by picture, so that
neighbours share what models saw. The rows do not depend on labels: whether an answer is right is
decided when they are read, and a corrected label needs no run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from viper.evaluate.campaign import ProgressBar, run
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import SampleRunner, items
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.jobs.candidates import Candidate
from viper.jobs.cases import Label
from viper.reasoner import Reasoner, RunOptions
from viper.storage.files import file_errors
from viper.storage.json_lines import dumps, read_lines
from viper.strategies.base import Components

OUTCOMES = "outcomes.jsonl"

# Failures of machines and networks, not of programs: the next session tries again.
_PASSING = {"model", "memory_full", "media", "internal", "store", "sandbox_host", "cancelled"}

# Cases under way at once: enough for batches of the models.
_IN_FLIGHT = 8

# Candidates that run on all cases together, so that a picture is read once for all of them.
_TOGETHER = 48


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
        outcome = Outcome(candidate, case, result.prediction, result.failure)
        self._file.write(dumps(outcome) + "\n")
        self._file.flush()
        self._by_key[candidate, case] = outcome


def run_candidates(
    components: Components,
    candidates: Sequence[Candidate],
    labels: Sequence[Label],
    outcomes: Outcomes,
    progress: ProgressBar,
    until: float = math.inf,
) -> list[Candidate]:
    """Run each candidate on each case that has no outcome of it yet.

    Args:
        until: time of the monotonic clock after which no further candidates begin.

    Returns:
        The candidates that have an outcome of each case.

    Raises:
        StoreError: an outcome cannot be kept.
    """
    groups: dict[Any, list[Candidate]] = {}
    for candidate in candidates:
        if any(not outcomes.has(candidate.id, label.case) for label in labels):
            groups.setdefault(tuple(sorted(candidate.thresholds.items())), []).append(candidate)
    batches = [
        (dict(thresholds), of_group[first : first + _TOGETHER])
        for thresholds, of_group in groups.items()
        for first in range(0, len(of_group), _TOGETHER)
    ]
    samples = [
        [
            replace(
                label.sample(),
                sample_id=f"{candidate.id}/{label.case}",
                groups={"candidate": candidate.id},
                **candidate.asked,
            )
            for label in labels
            for candidate in batch
            if not outcomes.has(candidate.id, label.case)
        ]
        for _, batch in batches
    ]
    total, before = sum(map(len, samples)), 0
    with progress(total, 0) as show:
        for (thresholds, batch), todo in zip(batches, samples, strict=True):
            if time.monotonic() > until:
                break
            reasoner = Reasoner(components.with_thresholds(thresholds), preload=False)
            # self-tuning would hide what the thresholds do
            options = RunOptions(self_tune=False, checks=False, on_misfit="ask")
            programs = {candidate.id: candidate.program for candidate in batch}
            runner = SampleRunner.with_cache(
                reasoner, metric("answered"), options, 2 * _IN_FLIGHT, programs=programs
            )
            engine = LocalEngine(runner, Bounds(_IN_FLIGHT))

            def on_done(row: SampleResult, running: Any, before: int = before) -> None:
                show(replace(running, total=total, done=before + running.fresh))

            run(engine, items(todo, (0,)), outcomes, on_done=on_done)
            before += len(todo)
    return [
        candidate
        for candidate in candidates
        if all(outcomes.has(candidate.id, label.case) for label in labels)
    ]
