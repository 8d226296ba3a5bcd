"""Questions to the matcher about reserved concepts and old words."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from viper.testing.fakes import FakeMatcher
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.scores.concepts import match as questions
from viper_lab.scores.concepts.measurement import rows
from viper_lab.world.reserved import CONCEPTS
from viper_lab.world.vocabulary import COLOURS, SHAPES


def toolbox(matcher=FakeMatcher):
    return Toolbox(ModelSet({"matcher": matcher}), ToolSettings())


class Biased(FakeMatcher):
    """Finds every picture like the one word alone, or unlike it alone."""

    def __init__(self, word, like):
        super().__init__()
        self.word, self.like = word, like

    def encode_images(self, images):
        return np.tile(np.array([1.0, 0.0], np.float32), (len(images), 1))

    def encode_texts(self, texts):
        named = [self.word in text.split() for text in texts]
        cosines = [0.5 + 0.4 * (1 if self.like else -1) * one for one in named]
        return np.array([(c, np.sqrt(1 - c * c)) for c in cosines], np.float32)


@pytest.mark.parametrize("concept", ["egg", "pink", "striped"])
def test_half_are_choices_of_a_picture_and_half_of_a_word(concept) -> None:
    found = list(islice(questions.questions_about(concept, "val", 0), 8))
    kinds = [one.kind for one in found]
    assert kinds == ["select", "classify"] * 3 + ["select", "verify"]
    for one in found:
        boxes = one.scene.boxes
        assert boxes.shape[1] == 4 and len(boxes) == len(set(map(tuple, boxes)))
        assert one.concept == concept and one.sample.startswith(f"val:{concept}:")
        if one.kind == "select":
            assert one.texts == [concept] and list(one.things) == list(range(len(boxes)))
            assert 1 <= len(one.right) <= 2 and set(one.right) < set(one.things)
        if one.kind == "classify":
            words = set(SHAPES if CONCEPTS[concept] == "shape" else COLOURS)
            old = set(one.texts) - {concept}
            (right,) = one.right
            assert one.texts[right] == concept and len(one.things) == 1
            assert old == words if concept != "striped" else len(words - old) == 1


def test_the_same_arguments_ask_the_same_and_seeds_differ() -> None:
    def asked(seed, count=4):
        return [
            (one.kind, one.sample, one.texts, one.things)
            for one in islice(questions.questions_about("dome", "val", seed), count)
        ]

    assert asked(0) == asked(0, 6)[:4]
    assert not {one[1] for one in asked(0)} & {one[1] for one in asked(1)}


def test_old_questions_ask_old_words_and_half_have_new_ones_beside() -> None:
    concepts = ["egg", "pink", "striped"]
    found = list(islice(questions.questions_about_old(concepts, "val", 0), 12))
    new = [one for one in found if one.kind.endswith("+new")]
    assert {one.kind for one in found} == {"select", "select+new", "classify", "classify+new"}
    assert 5 <= len(new) <= 7
    for one in found:
        (right,) = one.right
        said = one.concept if one.kind.startswith("select") else one.texts[right]
        assert said == one.concept and not set(said.split()) & set(CONCEPTS)
        added = set(one.texts) - {*SHAPES, *COLOURS}
        if one.kind == "classify":
            plain = one
            assert not added
        if one.kind == "classify+new":
            assert added in ({"egg"}, {"pink"}, {"striped"})
            assert (one.sample, one.things) == (plain.sample, plain.things)
        if one.kind == "select":
            assert ":old:" in one.sample


@pytest.mark.parametrize(("like", "right"), [(True, 1.0), (False, 0.0)])
def test_a_matcher_that_takes_all_for_the_concept_classifies_it_right(like, right) -> None:
    found = questions.about(
        toolbox(lambda: Biased("egg", like)), "egg", split="val", count=6, seed=0
    )
    assert [one.kind for one in found] == ["select", "classify"] * 3
    assert [one.right for one in found if one.kind == "classify"] == [right] * 3


def test_a_property_needs_a_yes_and_a_no() -> None:
    for like in (True, False):
        matcher = Biased("striped", like)
        found = questions.about(
            toolbox(lambda m=matcher: m), "striped", split="val", count=8, seed=0
        )
        verify = found[-1]
        assert verify.kind == "classify" and verify.right == 0.0


def test_rows_compare_the_same_questions() -> None:
    unlike, like = Biased("egg", False), Biased("egg", True)
    no, yes = (
        questions.about(toolbox(lambda m=one: m), "egg", split="val", count=6, seed=0)
        for one in (unlike, like)
    )
    found = {row.kind: row for row in rows(no, yes)}
    assert found["classify"].gain.difference.value == 1.0
    old = questions.about_old(toolbox(), ["pink"], split="val", count=4, seed=0)
    assert len(old) == 4 and all(one.right in (0.0, 1.0) for one in old)


def test_a_seed_has_so_many_scenes() -> None:
    with pytest.raises(ValueError, match="question 1000 of a seed; a seed has 1000 scenes"):
        questions._draw_scene("egg", 0, questions.SCENES)
