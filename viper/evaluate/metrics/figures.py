"""Protocol and shared counting of the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from viper.agreement import is_correct
from viper.data.sample import Sample
from viper.evaluate.intervals import Estimate, mean, proportion, share
from viper.evaluate.sample_result import REFUSALS, Prediction, SampleResult, Score


@dataclass(frozen=True)
class Figures:
    """Figures of a set of results. Failed samples count as 0 in every figure.

    Attributes:
        headline: name of the main figure in ``overall``.
        overall: figures over all samples.
        groups: ``{"semantic": {"rel": Estimate, …}, …}``.
        failures: kind to share of all samples.
        n: number of samples.
    """

    headline: str
    overall: Mapping[str, Estimate]
    groups: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    failures: Mapping[str, Estimate] = field(default_factory=dict)
    n: int = 0


class Metric(Protocol):
    """Protocol of how a data set scores answers."""

    @property
    def name(self) -> str: ...

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Score a prediction; None scores 0. Must be a pure function."""

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return the official figures with intervals for results of one seed.

        Must be a pure function.
        """


def scores(results: Iterable[SampleResult], detail: str | None = None) -> list[float]:
    """Return each result's score or one of its details; 0 for results that failed or lack it.

    The score of a refusal counts.
    """
    if detail is None:
        return [r.score if r.failure in (None, *REFUSALS) else 0.0 for r in results]
    return [r.details.get(detail, 0.0) if r.failure is None else 0.0 for r in results]


def clusters(results: Iterable[SampleResult]) -> list[str]:
    """Return each result's cluster."""
    return [result.cluster for result in results]


def share_of(results: Sequence[SampleResult], detail: str | None = None) -> Estimate:
    """Return the share of right results, or of results with a detail; both are 0 or 1."""
    return share([is_correct(value) for value in scores(results, detail)], clusters(results))


def mean_of(results: Sequence[SampleResult], detail: str | None = None) -> Estimate:
    """Return the mean score of the results, or the mean of a detail."""
    return mean(scores(results, detail), clusters=clusters(results))


def beside(
    results: Sequence[SampleResult],
    detail: str,
    estimate: Callable[[Sequence[SampleResult], str], Estimate],
) -> dict[str, Estimate]:
    """Return the estimate of a detail under its name.

    It is left out if an answered result lacks the detail: it was stored before the metric had it,
    and 0 would be a false figure.
    """
    has_all = all(result.failure is not None or detail in result.details for result in results)
    return {detail: estimate(results, detail)} if has_all else {}


def figures_of(
    results: Sequence[SampleResult],
    overall: Mapping[str, Estimate],
    of_group: Callable[[Sequence[SampleResult]], Estimate],
    skip: Collection[str] = (),
    grouped: Sequence[SampleResult] | None = None,
) -> Figures:
    """Return all figures, groups and failures; ``overall`` begins with the headline.

    Failures are shares of all results, the most frequent first.

    Args:
        results: all of them.
        overall: figures over all results.
        of_group: the estimate of a group's results.
        skip: groups that are left out.
        grouped: the results in groups; by default all.
    """
    groups: dict[str, dict[str, list[SampleResult]]] = {}
    for result in results if grouped is None else grouped:
        for name, value in result.groups.items():
            if name not in skip:
                groups.setdefault(name, {}).setdefault(value, []).append(result)
    kinds = Counter(result.failure for result in results if result.failure is not None)
    return Figures(
        headline=next(iter(overall)),
        overall=overall,
        groups={
            name: {value: of_group(mine) for value, mine in sorted(values.items())}
            for name, values in groups.items()
        },
        failures={kind: proportion(n, len(results)) for kind, n in kinds.most_common()},
        n=len(results),
    )
