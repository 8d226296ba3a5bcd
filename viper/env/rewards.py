"""Rewards of an episode, by named parts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from viper.errors import UsageError


@dataclass(frozen=True)
class Weights:
    """Weight of each part of a reward. A part with weight 0 is not computed.

    Attributes:
        answer: the score of the data set's metric.
        kind: the answer is of the kind that the query asks for, right or wrong.
        calls: share of the allowed tool calls that were not made, times the score.
        verified: the code answers rightly about other scenes too, times the score. It needs a set
            whose scenes are known.

    Raises:
        UsageError: a negative weight, or none above 0.
    """

    answer: float = 1.0
    kind: float = 0.1
    calls: float = 0.0
    verified: float = 0.0

    @classmethod
    def of(cls, text: str) -> Weights:
        """Return the weights that a text such as ``answer=1,kind=0.1`` changes.

        Raises:
            UsageError: the text is no list of parts with numbers, or no such weights exist.
        """
        try:
            return cls(**{k: float(v) for k, v in (pair.split("=") for pair in text.split(","))})
        except (TypeError, ValueError):
            known = ", ".join(part.name for part in fields(cls))
            raise UsageError(f"weights {text!r}: write PART=NUMBER,… with {known}") from None

    def __post_init__(self) -> None:
        values = self.each.values()
        if not all(0 <= value < math.inf for value in values) or not any(values):
            raise UsageError(f"weights {dict(self.each)}: give finite values from 0, one above 0")

    @property
    def each(self) -> Mapping[str, float]:
        """Return the weights by name."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def reward(self, parts: Mapping[str, float]) -> Reward:
        """Return the reward of these parts: their mean by weight."""
        total = sum(self.each[name] * value for name, value in parts.items())
        return Reward(total / sum(self.each.values()), dict(parts))


@dataclass(frozen=True)
class Reward:
    """A reward in [0, 1] and its parts by name, each in [0, 1]."""

    total: float
    parts: Mapping[str, float]
