"""Right or wrong, and the share that is right: GQA and plain answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from viper.data.sample import Sample
from viper.evaluate.metrics.figures import Figures, figures_of, share_of
from viper.evaluate.row import Prediction, Row, Score
from viper.evaluate.scorers import (
    answer_correct,
    choice_correct,
    ground_correct,
    match_tags,
    statement_correct,
)


@dataclass(frozen=True)
class Accuracy:
    """``accuracy``: right answers / all samples, overall and by every group.

    Attributes:
        right: whether a prediction that is there is right.
    """

    name: str
    right: Callable[[Sample, Prediction], bool]

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """1 if right, else 0."""
        return Score(float(prediction is not None and self.right(sample, prediction)))

    def figures(self, rows: Iterable[Row]) -> Figures:
        """``accuracy`` and its groups."""
        rows = list(rows)
        return figures_of(rows, {"accuracy": share_of(rows)}, share_of)


def right_answer(sample: Sample, prediction: Prediction) -> bool:
    """Whether a question's answer is the target, or one of the targets."""
    return answer_correct(prediction.value, sample.target)


def right_choice(sample: Sample, prediction: Prediction) -> bool:
    """Whether the chosen option is the target's."""
    return choice_correct(prediction.choice_index, sample.target)


def right_statement(sample: Sample, prediction: Prediction) -> bool:
    """Whether the truth value is the target's."""
    return statement_correct(prediction.value, sample.target)


def right_by_task(sample: Sample, prediction: Prediction) -> bool:
    """Whether a prediction of any task is right: IoU at least 0.5, equal words, right option."""
    if sample.task == "ground":
        return ground_correct(prediction.box, sample.target)
    if sample.task == "choice":
        return right_choice(sample, prediction)
    if sample.task == "statement":
        return right_statement(sample, prediction)
    if sample.task == "tag":
        return match_tags(prediction.value or (), sample.target).f1 == 1.0
    return right_answer(sample, prediction)


def gqa() -> Accuracy:
    """GQA: exact match, overall and by structural, semantic and detailed type.

    Source: Hudson and Manning 2019, sec. 4. Differs: both sides are normalised, see
    :func:`viper.evaluate.scorers.answers.answer_correct`.
    """
    return Accuracy("gqa", right_answer)


def answers() -> Accuracy:
    """Free answers with one or more accepted texts: exact match after normalisation."""
    return Accuracy("answers", right_by_task)
