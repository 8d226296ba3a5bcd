"""Protocol and shared counting of the metrics.

Metrics count on `Results`, columns of numbers: those of a million results fit in memory.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Protocol

import numpy as np

from viper.agreement import is_correct
from viper.data.sample import Sample
from viper.evaluate.intervals import Estimate, Floats, Ints, mean, proportion, share
from viper.evaluate.sample_result import REFUSALS, Prediction, SampleResult, Score


@dataclass(frozen=True)
class Column:
    """Values of results that often repeat, in the order in which they first occur.

    Attributes:
        values: the distinct values.
        codes: int32 [N], each result's index in ``values``.
    """

    values: Sequence[Any]
    codes: Ints

    def where(self, test: Callable[[Any], bool]) -> Ints:
        """Return which results have a value that passes the test, bool [N]."""
        return np.array([test(value) for value in self.values] or [False], dtype=bool)[self.codes]

    def counts(self) -> Counter[Any]:
        """Count the results of each value that occurs, in order of its first result."""
        present, first, counts = np.unique(self.codes, return_index=True, return_counts=True)
        counted: Counter[Any] = Counter()
        for place in np.argsort(first).tolist():
            counted[self.values[present[place]]] += int(counts[place])
        return counted


_COLUMNS = ("failure", "task", "cluster", "groups")


@dataclass(frozen=True)
class Results:
    """Columns of results, in their order. Iterating gives the results themselves.

    Attributes:
        score: float64 [N].
        failure, task, cluster: see :class:`SampleResult`.
        groups: each value is a tuple of names and values.
        details: float64 [N] by name; NaN for a result without this detail.
        expected: float64 [N], length of the target; 0 for one without a length.
        rows: reads the results again, for metrics that need more of them.
    """

    score: Floats
    failure: Column
    task: Column
    cluster: Column
    groups: Column
    details: Mapping[str, Floats]
    expected: Floats
    rows: Callable[[], Iterable[SampleResult]]

    @classmethod
    def of(cls, results: Iterable[Any], rows: Any = None) -> Results:
        """Return the columns of results, or the columns themselves.

        Args:
            results: read once; of each, the attributes named above and ``target``.
            rows: see above; by default the results must be readable twice.
        """
        if isinstance(results, cls):
            return results
        results = results if rows or isinstance(results, Sequence) else list(results)
        score, expected, details, n = array("d"), array("d"), dict[str, Any](), 0
        known: list[dict[Any, int]] = [{} for _ in _COLUMNS]
        codes = [array("i") for _ in _COLUMNS]
        for n, result in enumerate(results, start=1):
            score.append(result.score)
            expected.append(len(result.target) if hasattr(result.target, "__len__") else 0)
            groups = tuple(result.groups.items())
            values = (result.failure, result.task, result.cluster, groups)
            for value, index, column in zip(values, known, codes, strict=True):
                column.append(index.setdefault(value, len(index)))
            for name, value in result.details.items():
                column = details.setdefault(name, array("d"))
                column.extend([np.nan] * (n - 1 - len(column)))
                column.append(value)
        for column in details.values():
            column.extend([np.nan] * (n - len(column)))
        failure, task, cluster, combined = (
            Column([*index], np.frombuffer(column, np.int32) if n else np.zeros(0, np.int32))
            for index, column in zip(known, codes, strict=True)
        )
        return cls(
            score=np.array(score),
            failure=failure,
            task=task,
            cluster=cluster,
            groups=combined,
            details={name: np.array(column) for name, column in details.items()},
            expected=np.array(expected),
            rows=rows or (lambda: results),
        )

    def __iter__(self) -> Iterator[SampleResult]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self.score)

    def select(self, chosen: Ints) -> Results:
        """Return some of the results, by bool [N] or by their rising indices."""

        def rows() -> Iterator[SampleResult]:
            mask = np.zeros(len(self), bool)
            mask[chosen] = True
            return compress(self.rows(), mask)

        columns = {name: getattr(self, name) for name in _COLUMNS}
        return replace(
            self,
            score=self.score[chosen],
            **{name: replace(each, codes=each.codes[chosen]) for name, each in columns.items()},
            details={name: values[chosen] for name, values in self.details.items()},
            expected=self.expected[chosen],
            rows=rows,
        )


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


def scores(results: Iterable[SampleResult], detail: str | None = None) -> Floats:
    """Return each result's score or one of its details; 0 for results that failed or lack it.

    The score of a refusal counts.
    """
    results = Results.of(results)
    if detail is None:
        counts = results.failure.where(lambda failure: failure in (None, *REFUSALS))
        return np.where(counts, results.score, 0.0)
    values = results.details.get(detail, np.zeros(len(results)))
    counts = results.failure.where(lambda failure: failure is None)
    return np.where(counts & ~np.isnan(values), values, 0.0)


def clusters(results: Iterable[SampleResult]) -> Ints:
    """Number the results' clusters from 0, as :func:`cluster_numbers` does; int64 [N]."""
    results = Results.of(results)
    is_alone = results.cluster.where(lambda name: not name)
    names = np.where(is_alone, -1 - np.arange(len(results)), results.cluster.codes)
    _, first, numbers = np.unique(names, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[numbers]


def share_of(results: Iterable[SampleResult], detail: str | None = None) -> Estimate:
    """Return the share of right results, or of results with a detail; both are 0 or 1."""
    results = Results.of(results)
    hits = [is_correct(value) for value in scores(results, detail).tolist()]
    return share(hits, clusters(results))


def mean_of(results: Iterable[SampleResult], detail: str | None = None) -> Estimate:
    """Return the mean score of the results, or the mean of a detail."""
    results = Results.of(results)
    return mean(scores(results, detail), clusters=clusters(results))


def beside(
    results: Results, detail: str, estimate: Callable[[Results, str], Estimate]
) -> dict[str, Estimate]:
    """Return the estimate of a detail under its name.

    It is left out if an answered result lacks the detail: it was stored before the metric had it,
    and 0 would be a false figure.
    """
    lacking = np.isnan(results.details.get(detail, np.full(len(results), np.nan)))
    is_answered = results.failure.where(lambda failure: failure is None)
    return {} if (lacking & is_answered).any() else {detail: estimate(results, detail)}


def figures_of(
    results: Iterable[SampleResult],
    overall: Mapping[str, Estimate],
    of_group: Callable[[Results], Estimate],
    skip: Collection[str] = (),
    grouped: Results | None = None,
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
    results = Results.of(results)
    grouped = results if grouped is None else grouped
    of_values = [dict(groups) for groups in grouped.groups.values]
    names = dict.fromkeys(name for groups in grouped.groups.counts() for name, _ in groups)
    figures: dict[str, dict[str, Estimate]] = {}
    for name in names:
        if name in skip:
            continue
        values = sorted({groups[name] for groups in of_values if name in groups})
        numbers = {value: number for number, value in enumerate(values)}
        codes = np.array([numbers[groups[name]] if name in groups else -1 for groups in of_values])
        members = codes[grouped.groups.codes]
        order = np.argsort(members, kind="stable")
        starts = np.searchsorted(members[order], np.arange(len(values) + 1))
        parts = zip(values, starts, starts[1:], strict=False)
        figures[name] = {
            value: of_group(grouped.select(order[start:end]))
            for value, start, end in parts
            if end > start
        }
    kinds = results.failure.counts()
    del kinds[None]
    return Figures(
        headline=next(iter(overall)),
        overall=overall,
        groups=figures,
        failures={kind: proportion(n, len(results)) for kind, n in kinds.most_common()},
        n=len(results),
    )
