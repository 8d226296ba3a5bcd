"""Questions to the detector: what counts as right, and which objects a phrase names."""

from __future__ import annotations

import numpy as np
import pytest

from viper.models.vision.roles import Detection
from viper.tools.models import ModelSet
from viper.tools.settings import ThresholdSchedule, ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.scores.concepts import loc as questions
from viper_lab.scores.concepts.measurement import rows
from viper_lab.world.reserved import CONCEPTS, reserved_still


class Knowing:
    """Finds what a table of pictures says: the boxes of each phrase; notes what it was asked."""

    model_id = "knowing"
    default_threshold = 0.3

    def __init__(self, score=0.9):
        self.score, self.asked, self.table = score, [], {}

    def learn(self, rendered):
        self.table[rendered.image.tobytes()] = rendered

    def encode(self, images):
        return [np.ascontiguousarray(image).tobytes() for image in images]

    def detect(self, encoding, phrases):
        self.asked += phrases
        rendered = self.table.get(encoding)
        return [self._found(rendered, phrase.split()) for phrase in phrases]

    def _found(self, rendered, words):
        if rendered is None:
            return []
        things = zip(rendered.scene.objects, rendered.boxes, strict=True)
        return [
            Detection(tuple(map(float, box)), self.score)
            for thing, box in things
            if set(words) <= {thing.colour, thing.shape, thing.pattern}
        ]


def toolbox(detector):
    settings = ToolSettings({"detector.threshold": ThresholdSchedule(0.3, 0.1, 0.1)})
    return Toolbox(ModelSet({"detector": lambda: detector}), settings)


BOX, APART = (0.0, 0.0, 10.0, 10.0), (50.0, 50.0, 60.0, 60.0)


@pytest.mark.parametrize(
    ("found", "wanted", "right"),
    [
        ([], [], True),
        ([BOX], [BOX], True),
        ([APART, BOX], [BOX, APART], True),
        ([BOX], [], False),
        ([], [BOX], False),
        ([BOX, BOX], [BOX], False),
        ([BOX, BOX], [BOX, APART], False),
        ([(0.0, 0.0, 10.0, 6.0)], [BOX], True),
        ([(0.0, 0.0, 10.0, 4.0)], [BOX], False),
    ],
)
def test_boxes_and_objects_match_one_to_one(found, wanted, right) -> None:
    assert questions.matches(found, wanted) is right


@pytest.mark.parametrize("concept", ["pyramid", "pink", "striped"])
def test_one_who_knows_is_always_right_and_one_who_knows_nothing_never(concept) -> None:
    knowing = Knowing()
    for index in range(3):
        knowing.learn(reserved_still("val", questions.SEED_STRIDE + index, concept).rendered)
    asked = questions.about(toolbox(knowing), concept, split="val", count=3, seed=1)
    kinds = ["loc", "loc first", "loc phrase"]
    assert [one.kind for one in asked] == kinds * 3
    assert all(one.right == 1 and one.concept == concept for one in asked)
    blind = questions.about(toolbox(Knowing()), concept, split="val", count=3, seed=1)
    assert all(one.right == 0 for one in blind)
    assert [row.kind for row in rows(blind, asked)] == kinds


def test_a_phrase_is_the_concept_and_an_old_word_of_the_same_object() -> None:
    for concept in ("pyramid", "orange", "spotted"):
        knowing = Knowing()
        questions.about(toolbox(knowing), concept, split="val", count=1, seed=2)
        still = reserved_still("val", 2 * questions.SEED_STRIDE, concept)
        (phrase,) = [text for text in knowing.asked if text != concept]
        thing = still.rendered.scene.objects[int(np.flatnonzero(still.shown)[0])]
        family = CONCEPTS[concept]
        expected = f"{thing.colour} {concept}" if family == "shape" else f"{concept} {thing.shape}"
        assert phrase == expected


def test_boxes_below_the_threshold_do_not_count_but_the_best_may_still_be_right() -> None:
    unsure = Knowing(score=0.2)
    unsure.learn(reserved_still("val", 0, "pink").rendered)
    asked = questions.about(toolbox(unsure), "pink", split="val", count=1, seed=0)
    assert [one.right for one in asked] == [0, 1, 0]


def test_old_questions_name_old_words_only_and_every_other_one_stands_with_new_ones() -> None:
    knowing = Knowing()
    asked = questions.about_old(toolbox(knowing), ["pink", "egg"], split="val", count=6, seed=0)
    assert {one.kind for one in asked} == {"old with new", "old alone"}
    together = [one.sample for one in asked if one.kind == "old with new"]
    assert all(name.split(":")[1] in {"pink", "egg"} for name in together)
    assert not {word for text in knowing.asked for word in text.split()} & set(CONCEPTS)
    again = questions.about_old(toolbox(Knowing()), ["pink", "egg"], split="val", count=6, seed=0)
    assert asked == again
    other = questions.about_old(toolbox(Knowing()), ["pink", "egg"], split="val", count=6, seed=1)
    assert [one.sample for one in other] != [one.sample for one in asked]
