"""Whether there was an answer at all: for samples without a label."""

from __future__ import annotations

from collections.abc import Iterable

from viper.data.sample import Sample
from viper.evaluate.metrics.figures import Figures, figures_of, share_of
from viper.evaluate.row import Prediction, Row, Score


class AnsweredShare:
    """``answered``: answers of any kind / all samples. Says nothing of what is right."""

    name = "answered"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """1 where there is an answer, else 0."""
        return Score(float(prediction is not None))

    def figures(self, rows: Iterable[Row]) -> Figures:
        """``answered`` and its groups."""
        rows = list(rows)
        return figures_of(rows, {"answered": share_of(rows)}, share_of)
