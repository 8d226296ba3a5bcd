"""OK-VQA: soft accuracy against ten annotators."""

from __future__ import annotations

from collections.abc import Iterable

from viper.data.sample import Sample
from viper.evaluate.metrics.figures import Figures, figures_of, mean_of
from viper.evaluate.row import Prediction, Row, Score
from viper.evaluate.scorers import soft_accuracy, stemmed


class OKVQA:
    """``soft_accuracy`` without stemming, and ``soft_accuracy_stemmed`` with both sides stemmed.

    Source and differences: :func:`viper.evaluate.scorers.vqa.soft_accuracy`. The stemmed figure
    is for comparing with peers that stem; ours stems predictions and targets.
    """

    name = "okvqa"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """The soft accuracy; in the details ``stemmed``, the same over word stems."""
        said = None if prediction is None else prediction.value
        answers = [sample.target] if isinstance(sample.target, str) else list(sample.target)
        stems = soft_accuracy(said, answers, stemmed)
        return Score(soft_accuracy(said, answers), {"stemmed": stems})

    def figures(self, rows: Iterable[Row]) -> Figures:
        """Both figures; groups by soft accuracy."""
        rows = list(rows)
        return figures_of(
            rows,
            {
                "soft_accuracy": mean_of(rows),
                "soft_accuracy_stemmed": mean_of(rows, "stemmed"),
            },
            mean_of,
        )
