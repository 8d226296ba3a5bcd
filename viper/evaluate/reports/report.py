"""Report of a run, as the JSON object in ``report.json``.

The same results give the same object, byte for byte once written, except for ``timing``. All that
may differ between two equal runs (clocks, workers, cache hits) stands there.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from viper.agreement import is_correct
from viper.evaluate.calibration import risk_coverage
from viper.evaluate.intervals import Estimate, mean_of_estimates, over_seeds, proportion
from viper.evaluate.metrics import Figures, Metric, metric
from viper.evaluate.reports.error_diagram import error_diagram, is_fallback, share_json
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.storage.json_lines import plain

# Stands in every report, so that readers can tell a later form; new keys need no other number.
REPORT_VERSION = 1

# Enough to look at a kind of failure in `viper view`; the store has all.
_EXAMPLES = 3


def report(store: RunStore, judge: Metric | None = None) -> dict[str, Any]:
    """Build the report of a run, finished or not. Traces are not read.

    Every figure counts failed samples as 0. Over several seeds a figure is the mean of the
    seeds' figures, and its interval the mean of their intervals: they speak of the same
    samples, so that more seeds do not make the set larger.

    Args:
        store: the run.
        judge: its metric; by default the one that its manifest names.

    Raises:
        UnknownNameError: no metric of that name.
        StoreError: the store cannot be read.
    """
    manifest = store.manifest
    judge = judge or metric(manifest.metric)
    tally = Tally.of(store.rows())
    by_seed = {seed: judge.figures(store.rows(seed)) for seed in manifest.seeds}
    by_seed = {seed: part for seed, part in by_seed.items() if part.n} or by_seed
    figures = list(by_seed.values())
    expected = manifest.set.samples * len(manifest.seeds)
    values: dict[str, Any] = {
        "schema": REPORT_VERSION,
        "set": manifest.set.name,
        "split": manifest.set.split,
        "manifest": _summary(manifest),
        "metric": manifest.metric,
        "n": tally.n,
        "expected": expected,
        "complete": tally.n == expected,
        "headline": figures[0].headline,
        "figures": _over_seeds([part.overall for part in figures]),
        "groups": _groups(figures),
        "errors": error_diagram(store.rows()).to_json(),
        "failures": tally.failures.to_json(tally.n),
        "marks": tally.marks.to_json(tally.n),
        "confidence": _confidence(store),
        "fallbacks": _fallbacks(store, judge, tally, list(by_seed)),
        "seeds": _seeds(by_seed),
        "timing": _timing(store, tally),
    }
    values["notes"] = _notes(values)
    return plain(values)


def _summary(manifest: Manifest) -> dict[str, Any]:
    manifest_json = manifest.to_json()
    names = (
        "set", "strategy", "api", "profile", "models", "settings", "seeds", "prompt_hash",
        "bank_hash", "environment",
    )  # fmt: skip
    return {**{name: manifest_json[name] for name in names}, "fingerprint": manifest.fingerprint}


def _timing(store: RunStore, tally: Tally) -> dict[str, Any]:
    manifest_json = store.manifest.to_json()
    return {
        "created": manifest_json["created"],
        "sessions": store.sessions(),
        "execution": manifest_json["execution"],
        "sample_seconds": tally.seconds_json(),
        "usage": tally.usage_json(),
    }


def _over_seeds(parts: Sequence[Mapping[str, Estimate]]) -> dict[str, Any]:
    """Return each figure's mean over the seeds that have it."""
    names = dict.fromkeys(name for part in parts for name in part)
    means = {
        name: mean_of_estimates([part[name] for part in parts if name in part]) for name in names
    }
    return {
        name: {key: getattr(mean, key) for key in ("value", "low", "high", "n")}
        for name, mean in means.items()
    }


def _groups(figures: Sequence[Figures]) -> dict[str, Any]:
    kinds = dict.fromkeys(kind for part in figures for kind in part.groups)
    return {kind: _over_seeds([part.groups.get(kind, {}) for part in figures]) for kind in kinds}


def _seeds(by_seed: Mapping[int, Figures]) -> dict[str, Any]:
    values = {seed: figures.overall[figures.headline].value for seed, figures in by_seed.items()}
    spread = over_seeds(list(values.values()))
    return {
        "values": {str(seed): value for seed, value in values.items()},
        "mean": spread.mean,
        "deviation": spread.deviation,
    }


def _confidence(store: RunStore) -> dict[str, Any] | None:
    """Return how well the confidence of answers tells right from wrong; None if none has one."""
    known = [
        (row.prediction.confidence, is_correct(row.score))
        for row in store.rows()
        if row.prediction is not None and row.prediction.confidence is not None
    ]
    if not known:
        return None
    confidence, right = zip(*known, strict=True)
    measured = risk_coverage(confidence, right)
    return {
        "n": len(known),
        "calibration_error": vars(measured.calibration_error),
        "area": vars(measured.area),
        "risk_at": {name: vars(risk) for name, risk in measured.at.items()},
        "steps": measured.steps,
    }


def _fallbacks(
    store: RunStore, judge: Metric, tally: Tally, seeds: Sequence[int]
) -> dict[str, Any] | None:
    """Return the figures if each answer of a fallback counts as failed."""
    if not tally.not_own:
        return None
    parts = [judge.figures(_without_fallbacks(store.rows(seed))).overall for seed in seeds]
    return {
        "answers": tally.not_own,
        "share": tally.not_own / tally.n,
        "figures_without": _over_seeds(parts),
    }


def _without_fallbacks(results: Iterable[SampleResult]) -> Iterator[SampleResult]:
    for result in results:
        if is_fallback(result):
            yield replace(result, score=0.0, details={}, prediction=None, failure="fallback")
        else:
            yield result


def _notes(report: Mapping[str, Any]) -> list[str]:
    """Return what a reader must know before quoting a figure, in words."""
    notes = []
    if not report["complete"]:
        notes.append(
            f"This run is not finished: {report['n']:,} of {report['expected']:,} answers are "
            "stored, and the figures are about these."
        )
    if report["fallbacks"] is not None:
        answers, headline = report["fallbacks"]["answers"], report["headline"]
        without = report["fallbacks"]["figures_without"][headline]["value"]
        notes.append(
            f"{answers:,} of {report['n']:,} answers are a fallback's and not the strategy's own; "
            f"{headline} is {report['figures'][headline]['value']:.3f} with them and {without:.3f} "
            "where they count as failed."
        )
    if len(report["seeds"]["values"]) > 1:
        notes.append(
            f"Figures are means over {len(report['seeds']['values'])} seeds, with the mean of "
            "their 95% intervals."
        )
    return notes


_USAGE = ("llm_calls", "prompt_tokens", "completion_tokens", "model_calls")


@dataclass
class Kinds:
    """Count of each kind, with the ids of its first samples."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, sample_id: str) -> None:
        self.counts[kind] += 1
        first = self.examples.setdefault(kind, [])
        if len(first) < _EXAMPLES and sample_id not in first:
            first.append(sample_id)

    def to_json(self, n: int) -> dict[str, Any]:
        """Count, share of ``n`` with its interval, and examples; the most frequent first."""
        values = {}
        for kind, count in sorted(self.counts.items(), key=lambda item: (-item[1], item[0])):
            share = share_json(proportion(count, n))
            values[kind] = {"count": count, **share, "examples": self.examples[kind]}
        return values


@dataclass
class Tally:
    """Counts over the results of a run."""

    n: int = 0
    failures: Kinds = field(default_factory=Kinds)
    marks: Kinds = field(default_factory=Kinds)
    not_own: int = 0
    seconds: array[float] = field(default_factory=lambda: array("d"))
    usage: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    without_cost: int = 0

    @classmethod
    def of(cls, results: Iterable[SampleResult]) -> Tally:
        tally = cls()
        for result in results:
            tally.n += 1
            if result.failure is not None:
                tally.failures.add(result.failure, result.sample_id)
            for mark in result.marks:
                tally.marks.add(mark, result.sample_id)
            tally.not_own += is_fallback(result)
            tally.seconds.append(result.seconds)
            for name in _USAGE:
                tally.usage[name] += getattr(result.usage, name)
            tally.without_cost += result.usage.cost_usd is None
            tally.cost_usd += result.usage.cost_usd or 0.0
        return tally

    def usage_json(self) -> dict[str, Any]:
        """Return totals, and how many results have no cost. The cost is None if none is known."""
        has_cost = self.without_cost < self.n
        return {
            **{name: self.usage[name] for name in _USAGE},
            "cost_usd": round(self.cost_usd, 6) if has_cost else None,
            "samples_without_cost": self.without_cost,
        }

    def seconds_json(self) -> Mapping[str, float]:
        """Return the seconds per sample, waiting for shared models included."""
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
