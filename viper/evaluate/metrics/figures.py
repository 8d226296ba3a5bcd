"""Protocol and shared counting of the metrics.

Metrics count on `Results`, columns of numbers: those of a million results fit in memory.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

    def of(self, values: Sequence[Any]) -> Any:
        """Return for each result what stands in the place of its value, [N]."""
        return np.array(values or [None])[self.codes]

    def counts(self) -> Counter[Any]:
        """Count the results of each value that occurs, in order of its first result."""
        present, first, counts = np.unique(self.codes, return_index=True, return_counts=True)
        counted: Counter[Any] = Counter()
        for place in np.argsort(first).tolist():
            counted[self.values[present[place]]] += int(counts[place])
        return counted


@dataclass(frozen=True)
class Results:
    """Columns of results, in their order. Iterating reads the results themselves.

    Attributes:
        numbers: float64 [N] by name: ``score``, ``target`` (its length, or 0), and each detail as
            ``details.NAME``, NaN for a result without it.
        columns: ``failure``, ``task``, ``cluster``, and ``groups`` as a tuple of names and values.
        rows: reads all results, for metrics that need more of them; a part of them has none.
    """

    numbers: Mapping[str, Floats]
    columns: Mapping[str, Column]
    rows: Callable[[], Iterable[SampleResult]] = tuple

    @classmethod
    def of(
        cls,
        results: Iterable[SampleResult],
        rows: Callable[[], Iterable[SampleResult]] | None = None,
    ) -> Results:
        """Return the columns of results, which are read once, or the columns themselves.

        Args:
            rows: see above; by default the results must be readable twice.
        """
        if isinstance(results, cls):
            return results
        results = results if rows or isinstance(results, Sequence) else list(results)
        numbers: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        known = defaultdict[str, dict[Any, int]](dict)
        codes = {name: array("i") for name in ("failure", "task", "cluster", "groups")}
        n = 0
        for n, result in enumerate(results, start=1):
            length = len(result.target) if hasattr(result.target, "__len__") else 0
            details = {f"details.{name}": value for name, value in result.details.items()}
            for name, number in {"score": result.score, "target": length, **details}.items():
                numbers[name].extend([np.nan] * (n - 1 - len(numbers[name])))
                numbers[name].append(number)
            for name, column in codes.items():
                value = getattr(result, name)
                value = tuple(value.items()) if name == "groups" else value
                column.append(known[name].setdefault(value, len(known[name])))
        for each in numbers.values():
            each.extend([np.nan] * (n - len(each)))
        return cls(
            {name: np.array(numbers[name], float) for name in ("score", "target", *numbers)},
            {name: Column([*known[name]], np.array(codes[name])) for name in codes},
            rows or (lambda: results),
        )

    def __iter__(self) -> Iterator[SampleResult]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self.numbers["score"])

    def select(self, chosen: Ints) -> Results:
        """Return the columns of some of the results, by bool [N] or by their rising indices."""
        return Results(
            {name: values[chosen] for name, values in self.numbers.items()},
            {name: Column(each.values, each.codes[chosen]) for name, each in self.columns.items()},
        )

    def where(self, name: str, test: Callable[[Any], bool]) -> Ints:
        """Return which results have a value in this column that passes the test, bool [N]."""
        return self.columns[name].of(list(map(test, self.columns[name].values))).astype(bool)


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

        Must be a pure function. Those of a stored run are :class:`Results`: to iterate reads each
        whole row, which takes minutes for a million of them; their columns are quick.
        """


def scores(results: Iterable[SampleResult], detail: str | None = None) -> Floats:
    """Return each result's score or one of its details; 0 for results that failed or lack it.

    The score of a refusal counts.
    """
    results = Results.of(results)
    name, refusals = (f"details.{detail}", ()) if detail else ("score", REFUSALS)
    counts = results.where("failure", lambda failure: failure is None or failure in refusals)
    values = results.numbers.get(name, np.zeros(len(results)))
    return np.where(counts & ~np.isnan(values), values, 0.0)


def clusters(results: Iterable[SampleResult]) -> Ints:
    """Number the results' clusters from 0, as :func:`cluster_numbers` does; int64 [N]."""
    results = Results.of(results)
    is_alone, alone = results.where("cluster", lambda name: not name), -1 - np.arange(len(results))
    names = np.where(is_alone, alone, results.columns["cluster"].codes)
    _, first, numbers = np.unique(names, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


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
    values = results.numbers.get(f"details.{detail}", np.full(len(results), np.nan))
    is_answered = results.where("failure", lambda failure: failure is None)
    return {} if np.isnan(values[is_answered]).any() else {detail: estimate(results, detail)}


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
    column = grouped.columns["groups"]
    names = dict.fromkeys(name for groups in column.counts() for name, _ in groups)
    figures: dict[str, dict[str, Estimate]] = {}
    for name in filter(lambda name: name not in skip, names):
        own = [dict(groups).get(name) for groups in column.values]
        values = sorted({value for value in own if value is not None})
        numbers = {value: number for number, value in enumerate(values)}
        members = column.of([numbers.get(value, -1) for value in own])
        order = np.argsort(members, kind="stable")
        starts = np.searchsorted(members[order], np.arange(len(values) + 1))
        parts = zip(values, starts, starts[1:], strict=False)
        figures[name] = {
            value: of_group(grouped.select(order[start:end]))
            for value, start, end in parts
            if end > start
        }
    kinds = results.columns["failure"].counts()
    del kinds[None]
    return Figures(
        headline=next(iter(overall)),
        overall=overall,
        groups=figures,
        failures={kind: proportion(n, len(results)) for kind, n in kinds.most_common()},
        n=len(results),
    )
