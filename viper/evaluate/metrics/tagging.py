"""Tagging: labelled boxes."""

from __future__ import annotations

from collections.abc import Iterable

from viper.data.sample import Sample
from viper.evaluate.intervals import ratio
from viper.evaluate.metrics.figures import (
    Figures,
    clusters,
    details,
    figures_of,
    mean_of,
)
from viper.evaluate.row import Prediction, Row, Score
from viper.evaluate.scorers import match_tags


class Tagging:
    """``f1``: mean over pictures; ``f1_pooled``, ``precision``, ``recall`` over all tags.

    Source: :func:`viper.evaluate.scorers.tags.match_tags`. A picture that failed has F1 0, and
    its tags count as missed.
    """

    name = "tagging"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """F1; in the details ``matched``, ``predicted``, ``expected``."""
        if prediction is None:
            return Score(0.0, {"expected": float(len(sample.target))})
        counts = match_tags(prediction.value or (), sample.target)
        return Score(counts.f1, {name: float(n) for name, n in counts._asdict().items()})

    def figures(self, rows: Iterable[Row]) -> Figures:
        """The four figures; groups by ``f1``."""
        rows = list(rows)
        matched, predicted = details(rows, "matched"), details(rows, "predicted")
        expected = [float(len(row.target)) for row in rows]
        both = [mine + theirs for mine, theirs in zip(predicted, expected, strict=True)]
        units = clusters(rows)
        return figures_of(
            rows,
            {
                "f1": mean_of(rows),
                "f1_pooled": ratio([2 * count for count in matched], both, units),
                "precision": ratio(matched, predicted, units),
                "recall": ratio(matched, expected, units),
            },
            mean_of,
        )
