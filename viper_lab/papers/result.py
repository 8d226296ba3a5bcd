"""What a reproduction comes to: the rows of its tables and the claims that they bear out or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viper.evaluate.intervals import Estimate, OverSeeds, over_seeds, proportion

POINTS = "points"


@dataclass(frozen=True)
class TableCell:
    """One cell of a table.

    Attributes:
        table: which table or figure it belongs to, as ``table 2``.
        name: the configuration.
        family: the part of the data.
        figure: mean and standard deviation over seeds of the set's headline score.
        n: answers that it is made of, all seeds together.
        note: what a reader must know, as ``0 examples were mined``.
        unit: :data:`POINTS`, hundredths of a score, or what a plain number counts.
    """

    table: str
    name: str
    family: str
    figure: OverSeeds
    n: int
    note: str = ""
    unit: str = POINTS

    @classmethod
    def of_scores(
        cls, table: str, name: str, family: str, by_seed: Sequence[Sequence[float]], note: str = ""
    ) -> TableCell:
        """Return the cell of each seed's scores; a seed without any counts as 0."""
        means = [sum(scores) / len(scores) if scores else 0.0 for scores in by_seed]
        return cls(table, name, family, over_seeds(means), sum(map(len, by_seed)), note)

    def to_json(self) -> dict[str, Any]:
        """Return ``{name, family, mean, std, n}``, table first; note and unit last if set."""
        record: dict[str, Any] = {
            "table": self.table,
            "name": self.name,
            "family": self.family,
            "mean": round(self.figure.mean, 6),
            "std": None if self.figure.deviation is None else round(self.figure.deviation, 6),
            "n": self.n,
        }
        if self.note:
            record["note"] = self.note
        return record if self.unit == POINTS else {**record, "unit": self.unit}


@dataclass(frozen=True)
class Claim:
    """Something that must hold, judged by a 95 % interval, never by a value alone.

    Attributes:
        claim: in words.
        holds: None where it was not judged; ``reason`` then says why.
        reason: what the verdict rests on.
        gain: the difference it is about, in points of the score (0.15 is fifteen points).
        interval: the gain's paired 95% bootstrap interval.
    """

    claim: str
    holds: bool | None
    reason: str
    gain: float | None = None
    interval: tuple[float, float] | None = None

    @classmethod
    def of_gain(
        cls,
        claim: str,
        gain: Gain | Estimate | None,
        least: float = 0.0,
        prefix: str = "",
        *,
        holds: bool | None = None,
    ) -> Claim:
        """Return a claim about a difference, which is stated in points after ``prefix``.

        Args:
            gain: None where nothing was answered: the claim is not judged.
            least: must lie below the interval of the gain.
            holds: the verdict, if this interval does not decide.
        """
        if gain is None:
            return cls(claim, None, "no answers")
        difference = gain.difference if isinstance(gain, Gain) else gain
        if holds is None:
            holds = difference.low > least
        reason = f"{prefix}{in_points(difference)}, n = {difference.n:,}"
        return cls(claim, holds, reason, difference.value, (difference.low, difference.high))

    @classmethod
    def of_share(cls, claim: str, share: Estimate, least: float) -> Claim:
        """Return the claim that a share is at least this much, so that its interval lies above.

        It is not judged if there are too few answers: even if all were right, the interval would
        include ``least``.
        """
        reason = f"{in_percent(share)}, n = {share.n:,}"
        if proportion(share.n, share.n).low <= least:
            return cls(claim, None, f"{reason}: too few to judge")
        return cls(claim, share.low > least, reason)

    def to_json(self) -> dict[str, Any]:
        """Return ``{claim, holds, reason, gain, interval}``."""
        return {
            "claim": self.claim,
            "holds": self.holds,
            "reason": self.reason,
            "gain": None if self.gain is None else round(self.gain, 6),
            "interval": None if self.interval is None else [round(v, 6) for v in self.interval],
        }


def in_points(difference: Estimate) -> str:
    """Format a difference of scores with its interval in points: ``+1.0 [-0.5, +2.5]``."""
    value, low, high = (100 * v for v in (difference.value, difference.low, difference.high))
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"


def in_percent(share: Estimate) -> str:
    """Format a share with its interval: ``40.0 % [35.1, 45.2]``."""
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"


@dataclass(frozen=True)
class Gain:
    """One step against another, family by family, paired over all seeds."""

    table: str
    name: str
    family: str
    difference: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return ``{name, family, gain, interval, n}``."""
        return {
            "table": self.table,
            "name": self.name,
            "family": self.family,
            "gain": round(self.difference.value, 6),
            "interval": [round(self.difference.low, 6), round(self.difference.high, 6)],
            "n": self.difference.n,
        }


@dataclass(frozen=True)
class Reproduction:
    """All of it.

    Attributes:
        title: what was reproduced.
        rows, gains, claims: in the order of the tables.
        facts: models with the hashes of their weights, settings, seeds, seconds.
    """

    title: str
    rows: Sequence[TableCell]
    gains: Sequence[Gain]
    claims: Sequence[Claim]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that all ``viper lab reproduce`` commands share."""
        return {
            "schema": 1,
            "title": self.title,
            "rows": [row.to_json() for row in self.rows],
            "gains": [gain.to_json() for gain in self.gains],
            "claims": [claim.to_json() for claim in self.claims],
            "facts": dict(self.facts),
        }
