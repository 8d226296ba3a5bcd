"""Does a routine help? The same samples and seeds with and without it, compared in pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viper.ace.mine import Labelled
from viper.api.called import called_names
from viper.errors import ViperError
from viper.evaluate.intervals import Estimate, mean
from viper.reasoner import Reasoner, RunOptions


@dataclass(frozen=True)
class Scored:
    """One sample under one API: its score in [0, 1], its program, why there was no answer."""

    score: float
    program: str
    failure: str | None = None


@dataclass(frozen=True)
class Comparison:
    """Two APIs on the same samples.

    Attributes:
        without, with_it: mean scores.
        gain: mean difference of scores, with a bootstrap interval over samples.
        better, worse: samples whose score rose, and fell.
        used: share of programs that called one of the routines.
    """

    without: Estimate
    with_it: Estimate
    gain: Estimate
    better: int
    worse: int
    used: Estimate


def score_all(
    reasoner: Reasoner,
    samples: Sequence[Labelled],
    seed: int,
    on_done: Callable[[Scored], None] | None = None,
) -> list[Scored]:
    """Each sample's score; one without an answer counts 0 and keeps its failure."""
    found = []
    for sample in samples:
        found.append(_scored(reasoner, sample, seed))
        if on_done is not None:
            on_done(found[-1])
    return found


def _scored(reasoner: Reasoner, sample: Labelled, seed: int) -> Scored:
    query = sample.query
    options = RunOptions(
        task=query.task, options=query.options, seed=seed, sample_id=query.sample_id
    )
    try:
        result = reasoner.run(sample.media(), query.text, options)
    except ViperError as error:
        return Scored(0.0, "", f"error: {error}")
    failure = result.failure
    score = 0.0 if result.answer is None else float(sample.score(result))
    return Scored(score, result.program or "", None if failure is None else failure.kind)


def compare(
    without: Sequence[Scored], with_it: Sequence[Scored], names: Sequence[str]
) -> Comparison:
    """The paired comparison; both lists are of the same samples in the same order."""
    pairs = list(zip(without, with_it, strict=True))
    gains = [after.score - before.score for before, after in pairs]
    return Comparison(
        without=mean([item.score for item in without]),
        with_it=mean([item.score for item in with_it]),
        gain=mean(gains),
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
        used=mean([float(bool(called_names(item.program) & set(names))) for item in with_it]),
    )
