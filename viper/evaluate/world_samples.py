"""Whether an answer to a query of the embedded world is right."""

from __future__ import annotations

from viper.evaluate.scorers import answer_correct, choice_correct, ground_correct
from viper.schema import Answer
from viper.world.queries.sample import WorldSample


def is_right(sample: WorldSample, answer: Answer | None) -> bool:
    """Whether an answer is right: IoU at least 0.5, equal words, or the right option."""
    if answer is None:
        return False
    if sample.task == "ground":
        assert sample.box is not None
        return ground_correct(answer.box, sample.box)
    if sample.task == "choice":
        return choice_correct(answer.choice_index, int(sample.answer))
    return answer_correct(answer.value, str(sample.answer))
