"""Percentile intervals by resampling, whole clusters at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]

RESAMPLES = 1_000

_AT_ONCE = 2**20
"""Draws held in memory at a time."""


@dataclass(frozen=True)
class Sums:
    """What resampling needs of each cluster.

    Attributes:
        numerators: float64 [C], sums of values.
        denominators: float64 [C], how many values, or sums of what they are divided by.
    """

    numerators: Floats
    denominators: Floats

    @property
    def count(self) -> int:
        """How many clusters."""
        return len(self.numerators)


def cluster_numbers(clusters: Sequence[str] | None, n: int) -> np.ndarray[Any, Any]:
    """int [n]: each value's cluster, from 0; without clusters, or named "", it is alone."""
    if clusters is None:
        return np.arange(n)
    if len(clusters) != n:
        raise ValueError(f"{n} values and {len(clusters)} clusters")
    names = [(name, -1) if name else ("", index) for index, name in enumerate(clusters)]
    known: dict[tuple[str, int], int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def sums_of(
    numerators: Sequence[float], denominators: Sequence[float], clusters: Sequence[str] | None
) -> Sums:
    """The sums of every cluster; all sequences are as long as there are values."""
    numbers = cluster_numbers(clusters, len(numerators))
    above = np.bincount(numbers, weights=np.asarray(numerators, dtype=np.float64))
    below = np.bincount(numbers, weights=np.asarray(denominators, dtype=np.float64))
    return Sums(above.astype(np.float64), below.astype(np.float64))


def percentile_interval(
    sums: Sums, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """The middle 95% of ``sum(numerators) / sum(denominators)`` over resampled clusters.

    Draws as many clusters as there are, with replacement; the same for the same arguments.
    A resample whose denominators are all 0 counts as 0.
    Source: Efron and Tibshirani 1993, ch. 13; clusters as units as in Field and Welsh 2007.
    """
    random = np.random.default_rng(seed)
    found = np.empty(resamples)
    step = max(1, _AT_ONCE // sums.count)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        draws = random.integers(0, sums.count, (stop - start, sums.count))
        below = sums.denominators[draws].sum(axis=1)
        above = sums.numerators[draws].sum(axis=1)
        found[start:stop] = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)
