"""Report of a run, as the JSON object in ``report.json``.

The same results give the same object, byte for byte once written, except for ``timing``. All that
may differ between two equal runs (clocks, workers, cache hits) stands there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from viper.agreement import is_correct
from viper.evaluate.calibration import risk_coverage
from viper.evaluate.intervals import Estimate, mean_of_estimates, over_seeds, proportion
from viper.evaluate.metrics import Figures, Metric, metric
from viper.evaluate.metrics.figures import Column, Results
from viper.evaluate.reports.error_diagram import diagram_of, has_fallback, is_fallback, share_json
from viper.evaluate.runs.index import FIGURES
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
    results = store.results()
    by_seed = _figures_by_seed(store, results, judge)
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
        "n": len(results),
        "expected": expected,
        "complete": len(results) == expected,
        "headline": figures[0].headline,
        "figures": _over_seeds([part.overall for part in figures]),
        "groups": {
            kind: _over_seeds([part.groups.get(kind, {}) for part in figures]) for kind in kinds
        },
        "errors": diagram_of(store.parts()).to_json(),
        "failures": _kinds(store, results, "failure", lambda failure: (failure,)),
        "marks": _kinds(store, results, "marks", lambda marks: marks),
        "confidence": _confidence(results),
        "fallbacks": _fallbacks(store, results, judge, list(by_seed)),
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
            "sample_seconds": _seconds(results),
            "usage": _usage(results),
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
    judge = metric(store.manifest.metric)
    figures = list(_figures_by_seed(store, store.results(FIGURES), judge).values())
    name = figures[0].headline
    return name, _over_seeds([part.overall for part in figures])[name]


def _figures_by_seed(store: RunStore, results: Results, judge: Metric) -> dict[int, Figures]:
    """Return the figures of each seed that has answers; of all seeds if none has."""
    seeds = store.manifest.seeds
    by_seed = {seed: judge.figures(_of_seed(store, results, seed)) for seed in seeds}
    return {seed: part for seed, part in by_seed.items() if part.n} or by_seed


def _of_seed(store: RunStore, results: Results, seed: int) -> Results:
    is_own = results.numbers["seed"] == seed
    part = results if is_own.all() else results.select(is_own)
    return replace(part, rows=lambda: store.rows(seed))


def _failing(results: Results) -> Results:
    """Return the results with those of a fallback as failed ones."""

    def rows() -> Iterator[SampleResult]:
        failed: dict[str, Any] = {"score": 0.0, "details": {}, "prediction": None}
        for row in results:
            yield replace(row, **failed, failure="fallback") if is_fallback(row) else row

    fallback, failure = results.where("marks", has_fallback), results.columns["failure"]
    kinds = Column([*failure.values, "fallback"], failure.codes.copy())
    kinds.codes[fallback] = len(failure.values)
    numbers = {
        name: np.where(fallback, 0.0, values) if name == "score" else values
        for name, values in results.numbers.items()
    }
    return Results(numbers, {**results.columns, "failure": kinds}, rows)


def _over_seeds(parts: Sequence[Mapping[str, Estimate]]) -> dict[str, Any]:
    """Return each figure's mean over the seeds that have it."""
    names = dict.fromkeys(name for part in parts for name in part)
    figures = {}
    for name in names:
        mean = mean_of_estimates([part[name] for part in parts if name in part])
        figures[name] = {key: getattr(mean, key) for key in ("value", "low", "high", "n")}
    return figures


def _confidence(results: Results) -> dict[str, Any] | None:
    """Return how well the confidence of answers tells right from wrong; None if none has one."""
    known = ~np.isnan(results.numbers["confidence"])
    if not known.any():
        return None
    right = map(is_correct, results.numbers["score"][known].tolist())
    measured = risk_coverage(results.numbers["confidence"][known], right)
    return {
        "n": int(known.sum()),
        "calibration_error": vars(measured.calibration_error),
        "area": vars(measured.area),
        "risk_at": {name: vars(risk) for name, risk in measured.at.items()},
        "steps": measured.steps,
    }


def _fallbacks(
    store: RunStore, results: Results, judge: Metric, seeds: Sequence[int]
) -> dict[str, Any] | None:
    """Return the figures if each answer of a fallback counts as failed."""
    answers = int(results.where("marks", has_fallback).sum())
    if not answers:
        return None
    parts = [judge.figures(_failing(_of_seed(store, results, seed))).overall for seed in seeds]
    return {
        "answers": answers,
        "share": answers / len(results),
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


def _kinds(
    store: RunStore, results: Results, column: str, kinds_of: Callable[[Any], Sequence[Any]]
) -> dict[str, Any]:
    """Return count, share with its interval, and examples of each kind, the most frequent first."""
    kinds, values = Counter[Any](), {}
    for value, count in results.columns[column].counts().items():
        for kind in kinds_of(value):
            kinds[kind] += count
    del kinds[None]
    distinct = results.columns[column].values
    for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        of_kind = results.columns[column].of([kind in kinds_of(value) for value in distinct])
        places = np.unique(results.numbers["position"][of_kind])[:_EXAMPLES].tolist()
        query = "SELECT sample_id FROM facts WHERE position = ? LIMIT 1"
        examples = [store.query(query, (place,))[0][0] for place in places]
        share = share_json(proportion(count, len(results)))
        values[kind] = {"count": count, **share, "examples": examples}
    return values


def _usage(results: Results) -> dict[str, Any]:
    """Return totals, and how many results have no cost. The cost is None if none is known."""
    costs = results.numbers["cost_usd"]
    unknown = int(np.isnan(costs).sum())
    total = np.cumsum(np.nan_to_num(costs))  # in order, so that equal runs have equal sums
    return {
        **{name: int(results.numbers[name].sum()) for name in _USAGE},
        "cost_usd": round(float(total[-1]), 6) if unknown < len(results) else None,
        "samples_without_cost": unknown,
    }


def _seconds(results: Results) -> Mapping[str, float]:
    """Return the seconds per sample, waiting for shared models included."""
    values = results.numbers["seconds"]
    if not len(values):
        return {}
    median, late = np.percentile(values, [50, 95])
    return {
        "sum": float(values.sum()),
        "median": float(median),
        "p95": float(late),
        "longest": float(values.max()),
    }
