"""Settings chosen on a few labelled samples, and whether the choice can be trusted.

Source: Stanić et al. 2024, sec. 3.2: the order of hyperparameters on the few-shot samples was
close to their order on the whole validation set. Here both orders are measured and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tried:
    """One value of a setting.

    Attributes:
        shots: mean score on the few labelled samples.
        full: mean score on the samples to compare with; None where there are none.
    """

    value: float
    shots: float
    full: float | None = None


@dataclass(frozen=True)
class Sweep:
    """All tried values of one setting, in rising order.

    Attributes:
        name: ``temperature``, or a sensitivity as ``detector.threshold``.
        current: the profile's own value, which is kept where others are only as good.
    """

    name: str
    current: float
    tried: tuple[Tried, ...]

    @property
    def chosen(self) -> Tried:
        """The best on the shots; of equals the one nearest to the current value, then the lower."""

        def merit(one: Tried) -> tuple[float, float, float]:
            return one.shots, -round(abs(one.value - self.current), 9), -one.value

        return max(self.tried, key=merit)

    @property
    def agreement(self) -> float | None:
        """Kendall's tau-b between the two orders, in [-1, 1].

        None where one of them is missing or all its values are equal: nothing is ordered then.
        """
        full = [one.full for one in self.tried if one.full is not None]
        shots = [one.shots for one in self.tried]
        if len(full) < len(shots) or len(set(full)) < 2 or len(set(shots)) < 2:
            return None
        from scipy.stats import kendalltau

        return float(kendalltau(shots, full).statistic)

    @property
    def regret(self) -> float | None:
        """How much more the best value scores than the chosen one on ``full``; None without it."""
        full = [one.full for one in self.tried if one.full is not None]
        chosen = self.chosen.full
        return None if chosen is None or not full else max(full) - chosen

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "setting": self.name,
            "current": self.current,
            "chosen": self.chosen.value,
            "agreement": self.agreement,
            "regret": self.regret,
            "values": [vars(one) for one in self.tried],
        }


def values_between(low: float, high: float, count: int = 4) -> tuple[float, ...]:
    """So many values from low to high, two at least, evenly spaced, rounded to three places."""
    step = (high - low) / (count - 1)
    return tuple(dict.fromkeys(round(low + place * step, 3) for place in range(count)))


def in_order(values: Sequence[float], current: float) -> tuple[float, ...]:
    """The values to try, the current one among them, without repetition, rising."""
    return tuple(sorted({*values, current}))
