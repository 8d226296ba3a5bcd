"""Values with their 95% intervals, and comparisons of two runs on the same samples.

Metrics call `share`, `mean` or `ratio` on the values of their samples, and comparisons call
`paired`. Independent shares get Wilson's interval (`_wilson`). Everything else is summed by cluster
(`sums_of`) and resampled (`percentile_interval`), since samples of one picture are not independent.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

# Values of samples in order, and the names of their clusters, or the clusters' numbers from 0.
Values = Sequence[float] | Floats
Clusters = Sequence[str] | Ints | None

# The ends of a 95 % interval are then the 25th draws from each side; another draw moves them by
# about 2 % of its width.
RESAMPLES = 1_000

# The 97.5 % quantile of the normal distribution, for intervals of 95 %.
_Z = 1.959963984540054

# Draws held in memory at a time: some tens of megabytes with sums and products, and large enough
# that numpy's loop takes the time.
_AT_ONCE = 2**20


@dataclass(frozen=True)
class Estimate:
    """A value from ``n`` observations with its 95% interval."""

    value: float
    n: int
    low: float
    high: float


@dataclass(frozen=True)
class PairedTest:
    """Comparison of two runs on the same samples.

    Attributes:
        difference: mean of after minus before, with a bootstrap interval.
        better, worse, equal: samples whose score rose, fell, stayed.
        p_value: exact two-sided p-value of "neither is better".
    """

    difference: Estimate
    better: int
    worse: int
    equal: int
    p_value: float


class OverSeeds(NamedTuple):
    """Mean and standard deviation (n - 1) over seeds; the deviation of one seed is None."""

    mean: float
    deviation: float | None
    n: int


def proportion(hits: int, n: int) -> Estimate:
    """Return a share with its Wilson score interval; 0 of 0 is 0 with the interval [0, 1].

    Source: Wilson 1927.
    """
    return Estimate(0.0, 0, 0.0, 1.0) if n == 0 else _wilson(hits / n, n, n)


def mean(values: Values, clusters: Clusters = None) -> Estimate:
    """Return a mean with its bootstrap percentile interval; 0 if there are no values.

    Args:
        values: one value per sample.
        clusters: each value's cluster. Values of a cluster are drawn together; "" is alone.
    """
    return ratio(values, np.ones(len(values)), clusters)


def ratio(numerators: Values, denominators: Values, clusters: Clusters = None) -> Estimate:
    """Return sum over sum with its bootstrap percentile interval; 0 if the divisor is 0."""
    if len(numerators) == 0:
        return Estimate(0.0, 0, 0.0, 0.0)
    below = math.fsum(denominators)
    value = math.fsum(numerators) / below if below else 0.0
    low, high = percentile_interval(sums_of(numerators, denominators, clusters))
    return Estimate(value, len(numerators), min(low, value), max(high, value))


def share(hits: Sequence[bool] | Ints, clusters: Clusters = None) -> Estimate:
    """Return the share of right answers: Wilson interval for independent samples, else bootstrap.

    If all are right, or none, resampling cannot vary. The interval is then Wilson's with one
    observation per cluster.
    """
    n, right = len(hits), sum(map(bool, hits))
    units = int(cluster_numbers(clusters, n).max(initial=-1)) + 1
    if units == n:
        return proportion(right, n)
    if right in (0, n):
        return _wilson(right / n, n, units)
    return mean([float(hit) for hit in hits], clusters=clusters)


def paired(
    before: Sequence[float], after: Sequence[float], clusters: Clusters = None
) -> PairedTest:
    """Compare two runs. Both lists hold the same samples in the same order.

    The p-value is the exact sign test, which for right-or-wrong scores is McNemar's exact
    test. With clusters, each cluster votes with its summed difference, since samples of one
    picture are not independent.
    Source: McNemar 1947; Dixon and Mood 1946.
    """
    from scipy.stats import binomtest

    gains = [late - early for early, late in zip(before, after, strict=True)]
    # compare scores, not differences: their sign survives rounding
    ups = [late > early for early, late in zip(before, after, strict=True)]
    downs = [late < early for early, late in zip(before, after, strict=True)]
    rises, falls = sum(ups), sum(downs)
    if gains and clusters is not None:
        totals = sums_of(gains, [1.0] * len(gains), clusters).numerators
        # sums of differences keep errors of rounding, which are no rises or falls
        rises, falls = int((totals > 1e-12).sum()), int((totals < -1e-12).sum())
    decided = rises + falls
    return PairedTest(
        difference=mean(gains, clusters=clusters),
        better=sum(ups),
        worse=sum(downs),
        equal=len(gains) - sum(ups) - sum(downs),
        p_value=float(binomtest(rises, decided).pvalue) if decided else 1.0,
    )


def mean_of_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """Average a figure over seeds, and its interval's ends.

    Seeds answer the same samples, so more seeds do not make the set larger, or the interval
    narrower.
    """
    values = [(estimate.value, estimate.low, estimate.high) for estimate in estimates]
    value, low, high = (sum(column) / len(values) for column in zip(*values, strict=True))
    return Estimate(value, max(estimate.n for estimate in estimates), low, high)


def over_seeds(values: Sequence[float]) -> OverSeeds:
    """Return mean, standard deviation (n - 1) and number of a figure's values over seeds."""
    if not values:
        return OverSeeds(0.0, None, 0)
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return OverSeeds(statistics.fmean(values), deviation, len(values))


def _wilson(share: float, n: int, units: int) -> Estimate:
    # Wilson's score interval: unlike the normal one it stays within 0 and 1 for few samples
    middle = (share + _Z**2 / (2 * units)) / (1 + _Z**2 / units)
    spread = math.sqrt(share * (1 - share) / units + _Z**2 / (4 * units**2))
    half = _Z / (1 + _Z**2 / units) * spread
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Estimate(share, n, min(low, share), max(high, share))


@dataclass(frozen=True)
class Sums:
    """Sums of each cluster, for resampling.

    Attributes:
        numerators: float64 [C], sums of values.
        denominators: float64 [C], how many values, or sums of what they are divided by.
    """

    numerators: Floats
    denominators: Floats


def cluster_numbers(clusters: Clusters, n: int) -> Ints:
    """Return each value's cluster from 0, int [n]. A value with the name "" is its own cluster."""
    if clusters is None:
        return np.arange(n)
    if len(clusters) != n:
        raise ValueError(f"{n} values and {len(clusters)} clusters")
    if isinstance(clusters, np.ndarray):
        return clusters
    names = [(name, -1) if name else ("", index) for index, name in enumerate(clusters)]
    numbers: dict[tuple[str, int], int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def sums_of(numerators: Values, denominators: Values, clusters: Clusters) -> Sums:
    """Return the sums of every cluster. All sequences have one entry for each value."""
    numbers = cluster_numbers(clusters, len(numerators))
    above = np.bincount(numbers, weights=np.asarray(numerators, dtype=np.float64))
    below = np.bincount(numbers, weights=np.asarray(denominators, dtype=np.float64))
    return Sums(above.astype(np.float64), below.astype(np.float64))


def percentile_interval(sums: Sums) -> tuple[float, float]:
    """Return the middle 95% of ``sum(numerators) / sum(denominators)`` over resampled clusters.

    Draws as many clusters as there are, with replacement; the same for the same arguments.
    A resample whose denominators are all 0 counts as 0.
    Source: Efron and Tibshirani 1993, ch. 13; clusters as units as in Field and Welsh 2007.
    """
    random = np.random.default_rng(0)
    ratios, count = np.empty(RESAMPLES), len(sums.numerators)
    # Equal divisors that are whole numbers add up to the same in every draw, exactly.
    first = float(sums.denominators[0])
    is_even = first.is_integer() and bool((sums.denominators == first).all())
    step = max(1, _AT_ONCE // count)
    for start in range(0, RESAMPLES, step):
        stop = min(start + step, RESAMPLES)
        draws = random.integers(0, count, (stop - start, count))
        below = (
            np.full(stop - start, first * count)
            if is_even
            else sums.denominators[draws].sum(axis=1)
        )
        above = sums.numerators[draws].sum(axis=1)
        ratios[start:stop] = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)
