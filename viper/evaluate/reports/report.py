"""Report of a run, as the JSON object in ``report.json``.

The same results give the same object, byte for byte once written, except for ``timing``. All that
may differ between two equal runs (clocks, workers, cache hits) stands there.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from viper.agreement import is_correct
from viper.evaluate.calibration import risk_coverage
from viper.evaluate.intervals import Estimate, mean_of_estimates, over_seeds, proportion
from viper.evaluate.metrics import Figures, Metric, metric
from viper.evaluate.metrics.figures import Results
from viper.evaluate.reports.error_diagram import diagram_of, is_fallback, part_of, share_json
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.storage.json_lines import plain

# Stands in every report, so that readers can tell a later form; new keys need no other number.
REPORT_VERSION = 1

# What a report repeats of the run's manifest.
_SUMMARY = (
    "set", "strategy", "api", "profile", "models", "settings", "seeds", "prompt_hash", "bank_hash",
    "environment",
)  # fmt: skip

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
    manifest, manifest_json = store.manifest, store.manifest.to_json()
    judge = judge or metric(manifest.metric)
    tally = Tally.of(store.judged())
    by_seed = _figures_by_seed(store, judge)
    figures = list(by_seed.values())
    headlines = [part.overall[part.headline].value for part in figures]
    spread = over_seeds(headlines)
    kinds = dict.fromkeys(kind for part in figures for kind in part.groups)
    expected = manifest.set.samples * len(manifest.seeds)
    values: dict[str, Any] = {
        "schema": REPORT_VERSION,
        "set": manifest.set.name,
        "split": manifest.set.split,
        "manifest": {
            **{name: manifest_json[name] for name in _SUMMARY},
            "fingerprint": manifest.fingerprint,
        },
        "metric": manifest.metric,
        "n": tally.n,
        "expected": expected,
        "complete": tally.n == expected,
        "headline": figures[0].headline,
        "figures": _over_seeds([part.overall for part in figures]),
        "groups": {
            kind: _over_seeds([part.groups.get(kind, {}) for part in figures]) for kind in kinds
        },
        "errors": diagram_of(tally.parts).to_json(),
        "failures": _kinds(tally.failures, tally.n),
        "marks": _kinds(tally.marks, tally.n),
        "confidence": tally.confidence_json(),
        "fallbacks": _fallbacks(store, judge, tally, list(by_seed)),
        "seeds": {
            "values": dict(zip(map(str, by_seed), headlines, strict=True)),
            "mean": spread.mean,
            "deviation": spread.deviation,
        },
        "timing": {
            "created": manifest_json["created"],
            "sessions": store.sessions(),
            "execution": manifest_json["execution"],
            "pace": store.pace(),
            "sample_seconds": tally.seconds_json(),
            "usage": tally.usage_json(),
        },
    }
    values["notes"] = _notes(values)
    return plain(values)


def headline_of(store: RunStore) -> tuple[str, dict[str, Any]]:
    """Return the name of a run's main figure, and the figure with its interval, as in a report.

    Raises:
        UnknownNameError: the metric is not installed.
        StoreError: the store cannot be read.
    """
    figures = list(_figures_by_seed(store, metric(store.manifest.metric)).values())
    name = figures[0].headline
    return name, _over_seeds([part.overall for part in figures])[name]


def _figures_by_seed(store: RunStore, judge: Metric) -> dict[int, Figures]:
    """Return the figures of each seed that has answers; of all seeds if none has."""
    by_seed = {seed: judge.figures(_columns(store, seed)) for seed in store.manifest.seeds}
    return {seed: part for seed, part in by_seed.items() if part.n} or by_seed


def _columns(store: RunStore, seed: int, change: Any = iter) -> Results:
    return Results.of(change(store.judged(seed)), lambda: change(store.rows(seed)))


def _failing(results: Iterable[SampleResult]) -> Iterator[SampleResult]:
    """Yield the results, those of a fallback as failed ones."""
    failed: dict[str, Any] = {"score": 0.0, "details": {}, "prediction": None}
    for result in results:
        yield replace(result, **failed, failure="fallback") if is_fallback(result) else result


def _over_seeds(parts: Sequence[Mapping[str, Estimate]]) -> dict[str, Any]:
    """Return each figure's mean over the seeds that have it."""
    names = dict.fromkeys(name for part in parts for name in part)
    figures = {}
    for name in names:
        mean = mean_of_estimates([part[name] for part in parts if name in part])
        figures[name] = {key: getattr(mean, key) for key in ("value", "low", "high", "n")}
    return figures


def _fallbacks(
    store: RunStore, judge: Metric, tally: Tally, seeds: Sequence[int]
) -> dict[str, Any] | None:
    """Return the figures if each answer of a fallback counts as failed."""
    if not tally.not_own:
        return None
    parts = []
    for seed in seeds:
        parts.append(judge.figures(_columns(store, seed, _failing)).overall)
    return {
        "answers": tally.not_own,
        "share": tally.not_own / tally.n,
        "figures_without": _over_seeds(parts),
    }


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
class _Kind:
    """Number of results of a kind, and the ids of the first ones."""

    count: int = 0
    examples: dict[str, None] = field(default_factory=dict)

    def add(self, sample_id: str) -> None:
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples[sample_id] = None


def _kinds(kinds: Mapping[str, _Kind], n: int) -> dict[str, Any]:
    """Return count, share of ``n`` with its interval, and examples; the most frequent first."""
    return {
        name: {
            "count": kind.count,
            **share_json(proportion(kind.count, n)),
            "examples": [*kind.examples],
        }
        for name, kind in sorted(kinds.items(), key=lambda item: (-item[1].count, item[0]))
    }


@dataclass
class Tally:
    """Counts over the results of a run.

    Attributes:
        parts: number of answers in each part of the error diagram, by seed.
        confidence, right: of the answers with a confidence.
    """

    n: int = 0
    failures: defaultdict[str, _Kind] = field(default_factory=lambda: defaultdict(_Kind))
    marks: defaultdict[str, _Kind] = field(default_factory=lambda: defaultdict(_Kind))
    parts: dict[int, Counter[str]] = field(default_factory=dict)
    not_own: int = 0
    confidence: array[float] = field(default_factory=lambda: array("d"))
    right: bytearray = field(default_factory=bytearray)
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
                tally.failures[result.failure].add(result.sample_id)
            for mark in result.marks:
                tally.marks[mark].add(result.sample_id)
            tally.parts.setdefault(result.seed, Counter())[part_of(result)] += 1
            tally.not_own += is_fallback(result)
            if result.prediction is not None and result.prediction.confidence is not None:
                tally.confidence.append(result.prediction.confidence)
                tally.right.append(is_correct(result.score))
            tally.seconds.append(result.seconds)
            for name in _USAGE:
                tally.usage[name] += getattr(result.usage, name)
            tally.without_cost += result.usage.cost_usd is None
            tally.cost_usd += result.usage.cost_usd or 0.0
        return tally

    def confidence_json(self) -> dict[str, Any] | None:
        """Return how well confidence tells right from wrong; None if no answer has one."""
        if not self.confidence:
            return None
        measured = risk_coverage(self.confidence, map(bool, self.right))
        return {
            "n": len(self.confidence),
            "calibration_error": vars(measured.calibration_error),
            "area": vars(measured.area),
            "risk_at": {name: vars(risk) for name, risk in measured.at.items()},
            "steps": measured.steps,
        }

    def usage_json(self) -> dict[str, Any]:
        """Return totals, and how many results have no cost. The cost is None if none is known."""
        return {
            **{name: self.usage[name] for name in _USAGE},
            "cost_usd": round(self.cost_usd, 6) if self.without_cost < self.n else None,
            "samples_without_cost": self.without_cost,
        }

    def seconds_json(self) -> Mapping[str, float]:
        """Return the seconds per sample, waiting for shared models included."""
        if not self.n:
            return {}
        values = np.array(self.seconds)
        median, late = np.percentile(values, [50, 95])
        return {
            "sum": float(values.sum()),
            "median": float(median),
            "p95": float(late),
            "longest": float(values.max()),
        }
