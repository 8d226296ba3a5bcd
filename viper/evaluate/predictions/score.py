"""A predictions file against a set: rows, figures, and what was odd about the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from viper.data.sample import Sample
from viper.data.source import shown
from viper.errors import DataError
from viper.evaluate.metrics import Figures, Metric, metric
from viper.evaluate.predictions.interpret import prediction_of, value_of
from viper.evaluate.predictions.read import Given, key_of, read_predictions
from viper.evaluate.row import Row

MISSING, INVALID = "missing", "invalid"
"""Kinds of failure of rows without a prediction, and with one that is none."""


@dataclass(frozen=True)
class Scored:
    """What came of it.

    Attributes:
        rows: one of each sample, in the set's order.
        figures: the metric's.
        duplicates: predictions that a later one replaced.
        unknown: ids, as the file has them, that the set does not have.
    """

    rows: tuple[Row, ...]
    figures: Figures
    duplicates: int
    unknown: tuple[str, ...]

    def failed(self, kind: str) -> int:
        """How many rows failed in that way."""
        return sum(row.failure == kind for row in self.rows)


def score_predictions(
    samples: Sequence[Sample],
    metric_name: str,
    path: Path,
    missing: Literal["error", "wrong"] = "error",
) -> Scored:
    """Scores every sample of the set; loads no picture.

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
    judge, key = metric(metric_name), key_of(metric_name)
    file = read_predictions(path, metric_name)
    keys = [key(sample.sample_id) for sample in samples]
    absent = [
        sample.sample_id
        for sample, name in zip(samples, keys, strict=True)
        if name not in file.given
    ]
    known = set(keys)
    unknown = tuple(name for key, name in file.names.items() if key not in known)
    if absent and missing == "error":
        raise DataError(_absent(path, absent, len(samples), unknown))
    rows = tuple(
        _row(sample, file.given.get(name), judge)
        for sample, name in zip(samples, keys, strict=True)
    )
    return Scored(rows, judge.figures(rows), file.duplicates, unknown)


def first_few(names: Sequence[str]) -> str:
    """The first three, and that there are more."""
    listed = ", ".join(shown(name) for name in names[:3])
    return f"{listed}, …" if len(names) > 3 else listed


def _absent(path: Path, absent: Sequence[str], total: int, unknown: Sequence[str]) -> str:
    also = f" ({len(unknown)} are for ids not in the set: {first_few(unknown)})" if unknown else ""
    return (
        f"{path}: {len(absent)} of {total} predictions are missing: {first_few(absent)}{also}; "
        "add them, or count them as wrong with --missing wrong"
    )


def _row(sample: Sample, given: Given | None, judge: Metric) -> Row:
    prediction = prediction_of(sample, given) if given is not None else None
    failure = message = None
    if given is None:
        failure, message = MISSING, "no prediction"
    elif prediction is None:
        seen = shown(value_of(sample, given))
        failure, message = INVALID, f"{seen} is no prediction for the task {sample.task!r}"
    score = judge.score(sample, prediction)
    return Row.of(
        sample,
        seed=0,
        score=score.value,
        details=score.details,
        failure=failure,
        message=message,
        prediction=prediction,
    )
