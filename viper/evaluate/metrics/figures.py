"""What every metric gives, and the counting they share."""

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
    """What a set of rows comes to; every figure counts failed samples as 0.

    Attributes:
        headline: the name of the main one of ``overall``.
        overall: figures over all samples.
        groups: ``{"semantic": {"rel": Estimate, …}, …}``.
        failures: kind to share of all samples.
        n: how many samples.
    """

    headline: str
    overall: Mapping[str, Estimate]
    groups: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    failures: Mapping[str, Estimate] = field(default_factory=dict)
    n: int = 0


class Metric(Protocol):
    """How a data set judges answers."""

    @property
    def name(self) -> str: ...

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """How good the prediction is; None scores 0. Pure."""
        ...

    def figures(self, rows: Iterable[SampleResult]) -> Figures:
        """The set's official figures with intervals; rows of one seed. Pure."""
        ...


def scores(rows: Iterable[SampleResult]) -> list[float]:
    """Each row's score; 0 of a failed one, whatever it holds."""
    return [0.0 if result.failure is not None else result.score for result in rows]


def details(rows: Iterable[SampleResult], name: str) -> list[float]:
    """Each row's detail of that name; 0 where it failed or has none."""
    return [0.0 if result.failure is not None else result.details.get(name, 0.0) for result in rows]


def clusters(rows: Iterable[SampleResult]) -> list[str]:
    """Each row's cluster."""
    return [result.cluster for result in rows]


def share_of(rows: Sequence[SampleResult], detail: str | None = None) -> Estimate:
    """The share of right rows, or of those with a detail; both are 0 or 1."""
    values = scores(rows) if detail is None else details(rows, detail)
    return share([value > 0.5 for value in values], clusters(rows))


def mean_of(rows: Sequence[SampleResult], detail: str | None = None) -> Estimate:
    """The mean score, or the mean of a detail, of rows."""
    values = scores(rows) if detail is None else details(rows, detail)
    return mean(values, clusters=clusters(rows))


def failure_shares(rows: Sequence[SampleResult]) -> dict[str, Estimate]:
    """The share of each kind of failure among all rows, the most frequent first."""
    kinds = Counter(result.failure for result in rows if result.failure is not None)
    return {kind: proportion(count, len(rows)) for kind, count in kinds.most_common()}


def figures_of(
    rows: Sequence[SampleResult],
    overall: Mapping[str, Estimate],
    of_group: Callable[[Sequence[SampleResult]], Estimate],
    skip: Collection[str] = (),
) -> Figures:
    """Figures with every group's estimate and the failures; the first of ``overall`` leads.

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
