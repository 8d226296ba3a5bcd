"""Comparison of two runs over the same samples, pair by pair.

`compare` matches the results of both runs by sample and seed, one pair at a time, checks that they
asked the same, tests the paired gain, and lists the samples that became right or wrong or got
another program or failure. `routine_effect` tells what routines change: the same samples, with and
without them.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from viper.agreement import is_correct
from viper.api.library import called_names
from viper.errors import UsageError
from viper.evaluate.intervals import Estimate, PairedTest, mean, paired
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.schema import to_json
from viper.storage.json_lines import plain

# Enough to see the pattern, on one line.
_NAMED = 3


@dataclass(frozen=True)
class ScoreChange:
    """One sample whose result changed; ``before`` and ``after`` are the changed values."""

    sample_id: str
    seed: int
    text: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Comparison:
    """Differences between two runs, over the samples (and seeds) that both hold.

    Attributes:
        n: pairs compared.
        only_before, only_after: answers that the other run does not hold; 0 unless the caller
            asked for the common ones.
        gain: mean of after minus before with its interval, and the p-value of no difference.
        to_right, to_wrong: samples whose score crossed 0.5; values are scores.
        changed_program: values are programs.
        changed_failure: values are kinds of failure, None if there was an answer.
    """

    n: int
    only_before: int
    only_after: int
    score_before: float
    score_after: float
    gain: PairedTest
    to_right: tuple[ScoreChange, ...]
    to_wrong: tuple[ScoreChange, ...]
    changed_program: tuple[ScoreChange, ...]
    changed_failure: tuple[ScoreChange, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {"schema": 1, **plain(to_json(self))}


def compare(before: RunStore, after: RunStore, *, common: bool = False) -> Comparison:
    """Compare two runs pair by pair.

    Args:
        before: the run to start from.
        after: the run that shall be better.
        common: compare the samples that both hold where they do not hold the same ones.

    Raises:
        UsageError: they hold different samples (or the same ids ask for something else), or
            share none.
    """
    only_before = 0
    clusters, scores, later_scores = list[str](), array("d"), array("d")
    other = list[str]()
    changed: dict[str, list[ScoreChange]] = defaultdict(list)
    for old in before.rows():
        new = after.row(old.sample_id, old.seed)
        if new is None:
            only_before += 1
            continue
        clusters.append(old.cluster or f"sample {old.sample_id}")
        scores.append(old.score)
        later_scores.append(new.score)
        if (old.text, old.options, old.target) != (new.text, new.options, new.target):
            other.append(old.sample_id)
        for name in ("score", "program", "failure"):
            was, now = getattr(old, name), getattr(new, name)
            if was != now and (name != "score" or is_correct(was) != is_correct(now)):
                kind = name if name != "score" else "to_right" if was < now else "to_wrong"
                changed[kind].append(ScoreChange(old.sample_id, old.seed, old.text, was, now))
    shared = len(scores)
    only_after = after.count() - shared
    if not shared:
        raise UsageError("the two runs share no sample under the same seed")
    if not common and (only_before or only_after):
        raise UsageError(
            f"the two runs hold different samples: {only_before:,} only in {before.folder}, "
            f"{only_after:,} only in {after.folder}; --common compares the {shared:,} that "
            "both hold"
        )
    if other:
        raise UsageError(
            f"{len(other):,} samples have the same id in both runs and ask for something else "
            f"({', '.join(repr(name) for name in other[:_NAMED])}): not the same set"
        )
    return Comparison(
        n=shared,
        only_before=only_before,
        only_after=only_after,
        score_before=sum(scores) / shared,
        score_after=sum(later_scores) / shared,
        gain=paired(scores, later_scores, clusters),
        to_right=tuple(changed["to_right"]),
        to_wrong=tuple(changed["to_wrong"]),
        changed_program=tuple(changed["program"]),
        changed_failure=tuple(changed["failure"]),
    )


@dataclass(frozen=True)
class RoutineEffect:
    """Effect of routines: two APIs on the same samples.

    Attributes:
        without, with_it: mean scores.
        gain: what changed, sample by sample.
        used: share of programs that called a routine.
    """

    without: Estimate
    with_it: Estimate
    gain: PairedTest
    used: Estimate


def routine_effect(
    without: Sequence[SampleResult], with_it: Sequence[SampleResult], names: Sequence[str]
) -> RoutineEffect:
    """Return what routines of these names change; both lists hold the same samples in order."""
    before, after = ([r.score for r in results] for results in (without, with_it))
    clusters = [r.cluster or r.sample_id for r in without]
    return RoutineEffect(
        without=mean(before, clusters=clusters),
        with_it=mean(after, clusters=clusters),
        gain=paired(before, after, clusters),
        used=mean([float(bool(called_names(r.program or "") & set(names))) for r in with_it]),
    )
