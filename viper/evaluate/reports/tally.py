"""Counts over the rows of a run, in one pass: failures, marks, usage, seconds."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viper.evaluate.intervals import proportion
from viper.evaluate.row import Row

FALLBACK = "fallback:"
"""Marks that begin so say: the answer is not the strategy's own."""

_EXAMPLES = 3


@dataclass
class Kinds:
    """How often each kind occurs, with the first samples of it."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, sample_id: str) -> None:
        self.counts[kind] += 1
        first = self.examples.setdefault(kind, [])
        if len(first) < _EXAMPLES and sample_id not in first:
            first.append(sample_id)

    def to_json(self, n: int) -> dict[str, Any]:
        """Count, share of ``n`` with its interval, and examples; the most frequent first."""
        found = {}
        for kind, count in sorted(self.counts.items(), key=lambda item: (-item[1], item[0])):
            share = proportion(count, n)
            found[kind] = {
                "count": count,
                "share": share.value,
                "low": share.low,
                "high": share.high,
                "examples": self.examples[kind],
            }
        return found


@dataclass
class Tally:
    """What is counted while rows pass."""

    n: int = 0
    failures: Kinds = field(default_factory=Kinds)
    marks: Kinds = field(default_factory=Kinds)
    not_own: int = 0
    seconds: array[float] = field(default_factory=lambda: array("d"))
    usage: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    without_cost: int = 0

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Tally:
        tally = cls()
        for row in rows:
            tally.add(row)
        return tally

    def add(self, row: Row) -> None:
        self.n += 1
        if row.failure is not None:
            self.failures.add(row.failure, row.sample_id)
        for mark in row.marks:
            self.marks.add(mark, row.sample_id)
        self.not_own += is_fallback(row)
        self.seconds.append(row.seconds)
        for name in ("llm_calls", "prompt_tokens", "completion_tokens", "model_calls"):
            self.usage[name] += getattr(row.usage, name)
        if row.usage.cost_usd is None:
            self.without_cost += 1
        else:
            self.cost_usd += row.usage.cost_usd

    def usage_json(self) -> dict[str, Any]:
        """Totals; the cost is None where no row has one, and says how many rows have none."""
        known = self.without_cost < self.n
        return {
            **{name: self.usage[name] for name in
               ("llm_calls", "prompt_tokens", "completion_tokens", "model_calls")},
            "cost_usd": round(self.cost_usd, 6) if known else None,
            "samples_without_cost": self.without_cost,
        }  # fmt: skip

    def seconds_json(self) -> Mapping[str, float]:
        """Seconds of a sample, waiting for shared models included."""
        if not self.n:
            return {}
        values = np.frombuffer(self.seconds, dtype=np.float64)
        median, late = np.percentile(values, [50, 95])
        return {
            "sum": float(values.sum()),
            "median": float(median),
            "p95": float(late),
            "longest": float(values.max()),
        }


def is_fallback(row: Row) -> bool:
    """Whether something else answered after the strategy had failed."""
    return any(mark.startswith(FALLBACK) for mark in row.marks)
