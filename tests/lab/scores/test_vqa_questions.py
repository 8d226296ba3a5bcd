"""Questions to the visual answerer about reserved concepts and old ones."""

from __future__ import annotations

import pytest

from viper.testing.fakes import FakeAnswerer
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.scores.concepts import vqa as questions
from viper_lab.world.reserved import CONCEPTS


class Answerer(FakeAnswerer):
    """Says one word whatever it is asked; remembers what it was asked."""

    def __init__(self, word):
        super().__init__()
        self.model_id = f"answerer-{word}"
        self.word, self.asked = word, []

    def answer(self, encodings, asked):
        self.asked += list(asked)
        return [(self.word, 1.0) for _ in asked]


def toolbox(answerer):
    return Toolbox(ModelSet({"vqa": lambda: answerer}), ToolSettings())


@pytest.mark.parametrize("concept", ["pink", "egg", "striped"])
def test_who_names_the_concept_is_right(concept) -> None:
    answerer = Answerer(concept)
    found = questions.about(toolbox(answerer), concept, split="val", count=6, seed=0)
    assert [one.kind for one in found] == ["name", "judge"] * 3
    assert [one.right for one in found] == [1.0, 0.0] * 3
    assert all(concept in asked for asked in answerer.asked[1::2])
    assert not any(concept in asked for asked in answerer.asked[::2])


def test_half_of_the_judgements_are_about_others() -> None:
    asked = [(kind, answer) for kind, answer in _drawn("pink", 40) if kind == "judge"]
    share = sum(answer == "yes" for _, answer in asked) / len(asked)
    assert 0.4 <= share <= 0.7


def _drawn(concept, count):
    from itertools import islice

    drawn = islice(questions.questions_about(concept, "val", 0), count)
    return [(one.kind, one.answer) for one in drawn]


def test_the_same_questions_are_asked_again_and_another_seed_asks_others() -> None:
    one, two, other = Answerer("pink"), Answerer("red"), Answerer("pink")
    first = questions.about(toolbox(one), "pink", split="val", count=4, seed=0)
    again = questions.about(toolbox(two), "pink", split="val", count=4, seed=0)
    third = questions.about(toolbox(other), "pink", split="val", count=4, seed=1)
    assert one.asked == two.asked
    assert [each.sample for each in first] == [each.sample for each in again]
    assert not {each.sample for each in first} & {each.sample for each in third}


def test_an_egg_is_asked_for_with_its_article() -> None:
    answerer = Answerer("yes")
    questions.about(toolbox(answerer), "egg", split="val", count=2, seed=0)
    assert answerer.asked[1] in {"is this an egg?", "is it an egg?"}


def test_old_questions_want_no_reserved_word_and_some_stand_beside_one() -> None:
    answerer = Answerer("yes")
    asked = [
        one
        for one, _ in zip(
            questions.questions_about_old(["pink", "dome"], "val", 0), range(24), strict=False
        )
    ]
    assert {one.kind for one in asked} == {"old", "old+new"}
    assert not {one.answer for one in asked} & set(CONCEPTS)
    found = questions.about_old(toolbox(answerer), ["pink", "dome"], split="val", count=10, seed=0)
    assert len(found) == 10 and {one.kind for one in found} == {"old", "old+new"}


def test_a_lesson_has_what_failed_and_what_was_right_of_training_scenes() -> None:
    lesson = questions.training_data(toolbox(Answerer("no")), "pink", count=2, seed=0)
    wrong = [one for one in lesson if not one.right_already]
    right = [one for one in lesson if one.right_already]
    assert len(wrong) == 2 and 0 < len(right) <= questions.RIGHT_PER_WRONG * 2
    assert {one.answer for one in wrong} <= {"pink", "yes"}
    assert {one.answer for one in right} == {"no"}
    assert all(one.name.startswith("train:pink:") for one in lesson)
    assert len({one.name for one in lesson}) == len(lesson)
    assert all(one.pixels.ndim == 3 and one.pixels.dtype == "uint8" for one in lesson)
    assert all(one.pixels.shape[0] < 224 for one in lesson), "crops, as the model is shown them"


def test_who_knows_it_all_gets_no_lesson() -> None:
    class Knowing(Answerer):
        def answer(self, encodings, asked):
            return [("yes" if one.startswith("is ") else "pink", 1.0) for one in asked]

    lesson = questions.training_data(toolbox(Knowing("")), "pink", count=1, seed=0)
    wrong = [one for one in lesson if not one.right_already]
    assert all(one.answer == "no" for one in wrong)
