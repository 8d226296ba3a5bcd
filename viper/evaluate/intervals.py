"""Values with their 95% intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_Z = 1.959963984540054


@dataclass(frozen=True)
class Estimate:
    """A value from ``n`` observations with its 95% interval."""

    value: float
    n: int
    low: float
    high: float


def proportion(hits: int, n: int) -> Estimate:
    """A share with its Wilson score interval; 0 of 0 is 0 with the interval [0, 1].

    Source: Wilson 1927.
    """
    if n == 0:
        return Estimate(0.0, 0, 0.0, 1.0)
    share = hits / n
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return Estimate(share, n, max(0.0, middle - half), min(1.0, middle + half))


def mean(values: Sequence[float], resamples: int = 1_000, seed: int = 0) -> Estimate:
    """A mean with its bootstrap percentile interval."""
    if not values:
        return Estimate(0.0, 0, 0.0, 0.0)
    data = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(seed).integers(0, len(data), (resamples, len(data)))
    low, high = np.percentile(data[draws].mean(axis=1), [2.5, 97.5])
    return Estimate(float(data.mean()), len(data), float(low), float(high))
