"""InfoSeek: accuracy, and the harmonic mean of the two unseen splits."""

from __future__ import annotations

from collections.abc import Iterable

from viper.data.sample import Sample
from viper.evaluate.intervals import Estimate
from viper.evaluate.metrics.figures import Figures, figures_of, mean_of
from viper.evaluate.row import Prediction, Row, Score
from viper.evaluate.scorers.infoseek import infoseek_score

SPLITS = ("unseen_question", "unseen_entity")


class InfoSeek:
    """``accuracy``, and ``final``: the harmonic mean of the accuracies of both unseen splits.

    ``final`` is there only where both splits are. Its interval is that of the two splits' lower and
    upper ends, which is rather too wide. Source: the official scorer; see
    :mod:`viper.evaluate.scorers.infoseek`.
    """

    name = "infoseek"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """1 where the answer is right, else 0."""
        said = None if prediction is None else prediction.value
        return Score(infoseek_score(said, sample.target))

    def figures(self, rows: Iterable[Row]) -> Figures:
        """Both figures; groups by accuracy."""
        rows = list(rows)
        found = {"accuracy": mean_of(rows)}
        parts = [[row for row in rows if row.groups.get("split") == split] for split in SPLITS]
        if all(parts):
            both = [mean_of(part) for part in parts]
            found["final"] = Estimate(
                _harmonic(*(one.value for one in both)),
                sum(one.n for one in both),
                _harmonic(*(one.low for one in both)),
                _harmonic(*(one.high for one in both)),
            )
        return figures_of(rows, found, mean_of)


def _harmonic(*values: float) -> float:
    return 0.0 if min(values) <= 0 else len(values) / sum(1 / value for value in values)
