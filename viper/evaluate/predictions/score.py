"""Scores of a predictions file: results, figures and oddities, as JSON and tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from viper.data.sample import Sample
from viper.data.source import brief
from viper.errors import DataError
from viper.escape import for_csv, for_terminal
from viper.evaluate.intervals import Estimate
from viper.evaluate.metrics import Figures, Metric, metric
from viper.evaluate.predictions import read as reading
from viper.evaluate.sample_result import SampleResult
from viper.schema import to_json

# Kinds of failure of results without a prediction, or with an invalid one.
MISSING, INVALID = "missing", "invalid"

HEADER = ("figure", "%", "95% interval", "n")


@dataclass(frozen=True)
class ScoredPredictions:
    """Scores of a predictions file.

    Attributes:
        rows: one result per sample, in the set's order.
        figures: figures of the metric.
        duplicates: number of predictions that a later one replaced.
        unknown: ids of the file that the data set does not have.
    """

    rows: tuple[SampleResult, ...]
    figures: Figures
    duplicates: int
    unknown: tuple[str, ...]

    def failed(self, kind: str) -> int:
        """Return the number of results with this failure."""
        return sum(result.failure == kind for result in self.rows)


def score_predictions(
    samples: Sequence[Sample],
    metric_name: str,
    path: Path,
    missing: Literal["error", "wrong"] = "error",
) -> ScoredPredictions:
    """Score every sample of the data set. No picture is loaded.

    Args:
        samples: all samples that should have a prediction.
        metric_name: the set's metric, which also tells the file's format.
        path: the predictions file, see :func:`viper.evaluate.predictions.read.read_predictions`.
        missing: whether a sample without a prediction is an error, as in NLVR's script, or
            counts as wrong.

    Raises:
        DataError: the set is empty, the file does not parse, or predictions are missing.
        UnknownNameError: no such metric.
    """
    if not samples:
        raise DataError("the set has no samples; choose another --split")
    judge, key = metric(metric_name), reading.key_of(metric_name)
    file = reading.read_predictions(path, metric_name)
    keys = [key(sample.sample_id) for sample in samples]
    absent = [
        sample.sample_id
        for sample, name in zip(samples, keys, strict=True)
        if name not in file.records
    ]
    known_keys = set(keys)
    unknown = tuple(name for key, name in file.names.items() if key not in known_keys)
    if absent and missing == "error":
        raise DataError(_missing_message(path, absent, len(samples), unknown))
    rows = tuple(
        _score(sample, file.records.get(name), judge)
        for sample, name in zip(samples, keys, strict=True)
    )
    return ScoredPredictions(rows, judge.figures(rows), file.duplicates, unknown)


def first_few(names: Sequence[str]) -> str:
    """Return the first three names, with "…" if there are more."""
    listed = ", ".join(brief(name) for name in names[:3])
    # three show the pattern of wrong ids, on one line
    return f"{listed}, …" if len(names) > 3 else listed


def _missing_message(path: Path, absent: Sequence[str], total: int, unknown: Sequence[str]) -> str:
    also = f" ({len(unknown)} are for ids not in the set: {first_few(unknown)})" if unknown else ""
    return (
        f"{path}: {len(absent)} of {total} predictions are missing: {first_few(absent)}{also}; "
        "add them, or count them as wrong with --missing wrong"
    )


def _score(sample: Sample, record: reading.PredictionRecord | None, judge: Metric) -> SampleResult:
    prediction = reading.prediction_of(sample, record) if record is not None else None
    failure = message = None
    if record is None:
        failure, message = MISSING, "no prediction"
    elif prediction is None:
        value = brief(reading.value_of(sample, record))
        failure, message = INVALID, f"{value} is no prediction for the task {sample.task!r}"
    score = judge.score(sample, prediction)
    return SampleResult.of(
        sample,
        seed=0,
        score=score.value,
        details=score.details,
        failure=failure,
        message=message,
        prediction=prediction,
    )


def summary(scored: ScoredPredictions) -> dict[str, Any]:
    """Return figures, groups, failures and oddities as JSON values, in full precision."""
    figures = scored.figures
    return {
        "n": figures.n,
        "headline": figures.headline,
        "figures": to_json(figures.overall),
        "groups": to_json(figures.groups),
        "failures": to_json(figures.failures),
        "predictions": {
            "duplicates": scored.duplicates,
            "unknown": len(scored.unknown),
            "missing": scored.failed(MISSING),
            "invalid": scored.failed(INVALID),
        },
    }


def figure_rows(figures: Figures, by_group: bool) -> Iterator[tuple[str, str, str, str]]:
    """Yield the lines of a table under :data:`HEADER`: figures, groups on request, failures."""
    yield from _lines(figures.overall)
    if by_group:
        for name, values in figures.groups.items():
            yield from _lines(
                {for_terminal(f"{name} {value}"): estimate for value, estimate in values.items()}
            )
    yield from _lines({f"failed: {kind}": estimate for kind, estimate in figures.failures.items()})


def percent(estimate: Estimate) -> str:
    """Return the value in percent with two decimals, rounded as the official scripts do.

    They divide 100 times the count by n; the share times 100 can fall on the other side of a tie.
    """
    hits = estimate.value * estimate.n
    # a sum of whole scores, but for rounding; graded ones are further from whole numbers
    if estimate.n and abs(hits - round(hits)) < 1e-6:
        return f"{round(hits) * 100.0 / estimate.n:.2f}"
    return f"{100 * estimate.value:.2f}"


def rows_csv(rows: Sequence[SampleResult]) -> str:
    """Return one CSV line per sample, with scores, details, prediction, target and groups."""
    details = sorted({name for row in rows for name in row.details})
    groups = sorted({name for row in rows for name in row.groups})
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    header = ["id", "task", "score", *details, "failure", "prediction", "target", "cluster", "text"]
    table.writerow([for_csv(name) for name in (*header, *(f"group:{name}" for name in groups))])
    for row in rows:
        numbers = [repr(row.details[name]) if name in row.details else "" for name in details]
        texts = [row.failure or "", _answer_text(row), _plain(row.target), row.cluster, row.text]
        texts += [row.groups.get(name, "") for name in groups]
        start = [for_csv(row.sample_id), row.task, repr(row.score)]
        table.writerow([*start, *numbers, *map(for_csv, texts)])
    return out.getvalue()


def _lines(estimates: Mapping[str, Estimate]) -> Iterable[tuple[str, str, str, str]]:
    for name, figure in estimates.items():
        interval = f"[{100 * figure.low:.2f}, {100 * figure.high:.2f}]"
        yield for_terminal(name), percent(figure), interval if figure.n else "-", f"{figure.n}"


def _answer_text(result: SampleResult) -> str:
    if result.prediction is None:
        return ""
    if result.prediction.choice_index is not None:
        return str(result.prediction.choice_index)
    return _plain(result.prediction.value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(to_json(value), ensure_ascii=False)
