"""Questions to the segmenter about reserved concepts and old shapes."""

from __future__ import annotations

import numpy as np
import pytest

from viper.models.vision.roles import Segment
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.scores.concepts import measurement
from viper_lab.scores.concepts import seg as questions
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS, reserved_still


class Knowing:
    """Knows the true outlines of the scenes that a test asks about; names them as told."""

    model_id = "knowing"

    def __init__(self, name):
        self.name, self.seen = name, []

    def encode(self, pixels):
        self.seen.append(pixels.tobytes())
        return pixels

    def segments(self, encoding, names):
        still = next(one for one in STILLS if (one.image == encoding).all())
        found = []
        for thing, mask in zip(still.scene.objects, still.masks, strict=True):
            name = self.name(thing)
            if name and mask.any():
                found.append(Segment(np.asarray(mask), name, 0.9))
        return found


STILLS = []


@pytest.fixture(autouse=True)
def _remembered(monkeypatch):
    """What the questions draw is what the test's segmenter knows."""
    STILLS.clear()

    def reserved(split, index, concept, *, present=True):
        still = reserved_still(split, index, concept, present=present)
        STILLS.append(still.rendered)
        return still

    def drawn(scene):
        STILLS.append(render_scene(scene))
        return STILLS[-1]

    for module in (questions, measurement):
        monkeypatch.setattr(module, "reserved_still", reserved)
    monkeypatch.setattr(measurement, "render_scene", drawn)


def toolbox(segmenter):
    return Toolbox(ModelSet({"segmenter": lambda: segmenter}), ToolSettings())


def concept_of(thing):
    words = (thing.shape, thing.colour, thing.pattern)
    return next((word for word in words if word in CONCEPTS), thing.shape)


@pytest.mark.parametrize("concept", ["dome", "pink", "spotted"])
def test_who_names_the_concept_is_right(concept) -> None:
    found = questions.about(toolbox(Knowing(concept_of)), concept, split="val", count=6, seed=0)
    present = ["seg", "seg outline"] * 2
    assert [one.kind for one in found] == [*present, "seg absent"] * 2
    assert all(one.right == 1.0 for one in found)
    assert all(one.concept == concept and concept in one.sample for one in found)


def test_who_knows_old_shapes_alone_is_right_where_there_is_nothing() -> None:
    plain = Knowing(lambda thing: thing.shape)
    found = questions.about(toolbox(plain), "pink", split="val", count=6, seed=0)
    assert {one.right for one in found if one.kind == "seg"} == {0.0}
    assert {one.right for one in found if one.kind in ("seg absent", "seg outline")} == {1.0}


def test_outlines_that_are_not_drawn_are_not_right() -> None:
    blind = Knowing(lambda thing: "" if concept_of(thing) in CONCEPTS else thing.shape)
    found = questions.about(toolbox(blind), "pink", split="val", count=6, seed=0)
    assert {one.right for one in found if one.kind == "seg outline"} == {0.0}


def test_who_calls_everything_so_is_half_right_at_best() -> None:
    found = questions.about(
        toolbox(Knowing(lambda _: "pink")), "pink", split="val", count=6, seed=0
    )
    assert all(0 < one.right < 1 for one in found if one.kind == "seg")
    assert {one.right for one in found if one.kind == "seg absent"} == {0.0}


def test_old_shapes_may_go_by_either_name_where_they_show_a_concept() -> None:
    for name in (concept_of, lambda thing: thing.shape):
        STILLS.clear()
        found = questions.about_old(
            toolbox(Knowing(name)), ["pink", "dome"], split="val", count=8, seed=0
        )
        assert len(found) == 8 and {one.kind for one in found} == {"old", "old+new"}
        assert all(one.right == 1.0 and one.concept not in CONCEPTS for one in found)


def test_old_shapes_that_are_called_new_are_lost() -> None:
    found = questions.about_old(
        toolbox(Knowing(lambda _: "pink")), ["pink"], split="val", count=4, seed=0
    )
    assert {one.right for one in found} == {0.0}


def test_the_same_scenes_are_asked_about_again_and_another_seed_has_others() -> None:
    first, again = Knowing(concept_of), Knowing(concept_of)
    one = questions.about(toolbox(first), "egg", split="val", count=4, seed=0)
    two = questions.about(toolbox(again), "egg", split="val", count=4, seed=0)
    other = questions.about(toolbox(Knowing(concept_of)), "egg", split="val", count=4, seed=1)
    assert first.seen == again.seen and [a.sample for a in one] == [b.sample for b in two]
    assert not {each.sample for each in one} & {each.sample for each in other}
