"""Protocol and shared counting of the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from viper.data.sample import Sample
from viper.evaluate.intervals import Estimate, mean, proportion, share
from viper.evaluate.sample_result import Prediction, SampleResult, Score


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

    def figures(self, rows: Iterable[SampleResult]) -> Figures:
        """Return the official figures with intervals for results of one seed.

        Must be a pure function.
        """


def scores(rows: Iterable[SampleResult]) -> list[float]:
    """Return each result's score; 0 for failed ones."""
    return [0.0 if result.failure is not None else result.score for result in rows]


def details(rows: Iterable[SampleResult], name: str) -> list[float]:
    """Return each result's detail of this name; 0 for results that failed or lack it."""
    return [0.0 if result.failure is not None else result.details.get(name, 0.0) for result in rows]


def clusters(rows: Iterable[SampleResult]) -> list[str]:
    """Return each result's cluster."""
    return [result.cluster for result in rows]


def share_of(rows: Sequence[SampleResult], detail: str | None = None) -> Estimate:
    """Return the share of right results, or of results with a detail; both are 0 or 1."""
    values = scores(rows) if detail is None else details(rows, detail)
    return share([value > 0.5 for value in values], clusters(rows))


def mean_of(rows: Sequence[SampleResult], detail: str | None = None) -> Estimate:
    """Return the mean score of the results, or the mean of a detail."""
    values = scores(rows) if detail is None else details(rows, detail)
    return mean(values, clusters=clusters(rows))


def failure_shares(rows: Sequence[SampleResult]) -> dict[str, Estimate]:
    """Return the share of each kind of failure among all results, the most frequent first."""
    kinds = Counter(result.failure for result in rows if result.failure is not None)
    return {kind: proportion(count, len(rows)) for kind, count in kinds.most_common()}


def figures_of(
    rows: Sequence[SampleResult],
    overall: Mapping[str, Estimate],
    of_group: Callable[[Sequence[SampleResult]], Estimate],
    skip: Collection[str] = (),
) -> Figures:
    """Return all figures, groups and failures; ``overall`` begins with the headline.

    Args:
        rows: all of them.
        overall: figures over all rows.
        of_group: the estimate of a group's rows.
        skip: groups that are left out.
    """
    groups: dict[str, dict[str, list[SampleResult]]] = {}
    for result in rows:
        for name, value in result.groups.items():
            if name not in skip:
                groups.setdefault(name, {}).setdefault(value, []).append(result)
    return Figures(
        headline=next(iter(overall)),
        overall=overall,
        groups={
            name: {value: of_group(mine) for value, mine in sorted(values.items())}
            for name, values in groups.items()
        },
        failures=failure_shares(rows),
        n=len(rows),
    )
