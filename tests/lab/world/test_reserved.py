"""Scenes of reserved concepts, and that no other scene holds any."""

import numpy as np
import pytest

from viper.errors import UnknownNameError, UsageError
from viper_lab.world.layout import sample_scene
from viper_lab.world.render_camera import Camera
from viper_lab.world.render_shapes import half_height
from viper_lab.world.render_stage import Stage, mask_box
from viper_lab.world.reserved import (
    CONCEPTS,
    SCENES_PER_CONCEPT,
    reserved_scene,
    reserved_still,
    shows,
)
from viper_lab.world.scene import SceneObject
from viper_lab.world.splits import split_of
from viper_lab.world.vocabulary import COLOURS, HELD_OUT_COMBINATIONS, SHAPES, SPLITS

FIRST_LOOKS = {
    "train": [
        "small gray rubber ball",
        "big gray rubber ring",
        "small purple metal cone",
        "big blue metal ball",
        "big blue metal cone",
    ],
    "val": [
        "small purple rubber ring",
        "big yellow metal cone",
        "small purple rubber ring",
        "small purple metal cylinder",
        "big purple metal ring",
    ],
    "test": [
        "big gray rubber cube",
        "big yellow rubber ball",
        "big red rubber cylinder",
        "small yellow rubber cone",
        "small yellow rubber ball",
        "small red rubber cone",
    ],
}
"""What the first scene of each split held before there were twelve reserved concepts."""


def is_ordinary(thing):
    return thing.shape in SHAPES and thing.colour in COLOURS and thing.pattern is None


@pytest.mark.parametrize("split", SPLITS)
def test_default_scenes_are_those_of_always(split):
    looks = [thing.phrase for thing in sample_scene(split, 0).objects]
    assert looks == FIRST_LOOKS[split]


@pytest.mark.parametrize("split", SPLITS)
def test_default_scenes_hold_no_reserved_concept(split):
    for index in range(25):
        things = sample_scene(split, index).objects
        assert all(is_ordinary(thing) for thing in things)
        assert not any(shows(thing, concept) for thing in things for concept in CONCEPTS)


def test_there_are_twelve_concepts():
    assert sorted(CONCEPTS.values()) == ["colour"] * 4 + ["pattern"] * 3 + ["shape"] * 5


@pytest.mark.parametrize("concept", CONCEPTS)
def test_a_scene_shows_the_concept_among_known_things(concept):
    for index in range(3):
        scene = reserved_scene("train", index, concept)
        shown = [thing for thing in scene.objects if shows(thing, concept)]
        assert 1 <= len(shown) <= 2 < len(scene.objects)
        assert sum(is_ordinary(thing) for thing in scene.objects) == len(scene.objects) - len(shown)
        pairs = {(thing.colour, thing.shape) for thing in scene.objects}
        assert not pairs & HELD_OUT_COMBINATIONS


@pytest.mark.parametrize("concept", ["plank", "black", "checkered"])
def test_a_scene_without_the_concept_is_an_ordinary_one(concept):
    scene = reserved_scene("val", 0, concept, present=False)
    assert all(is_ordinary(thing) for thing in scene.objects)


def test_scenes_are_seeded_and_share_no_seed_with_others():
    same, again = (reserved_scene("test", 4, "dome") for _ in range(2))
    assert same == again
    others = [
        reserved_scene("test", 5, "dome"),
        reserved_scene("test", 4, "dome", present=False),
        reserved_scene("test", 4, "disc"),
        reserved_scene("train", 4, "dome"),
    ]
    assert len({scene.seed for scene in (same, *others)}) == 5
    assert split_of(same.seed) == "test" and split_of(others[3].seed) == "train"


def test_a_still_tells_where_the_concept_is():
    still = reserved_still("train", 0, "striped")
    things = still.rendered.scene.objects
    assert still.shown.tolist() == [thing.pattern == "striped" for thing in things]
    for index, (box, mask) in enumerate(
        zip(still.rendered.boxes, still.rendered.masks, strict=True)
    ):
        own = still.ids == index + 1
        assert (own & ~mask).sum() == 0
        assert (own != mask).sum() <= 0.1 * mask.sum()
        assert np.abs(np.subtract(mask_box(own), box)).max() <= 2
    assert not reserved_still("train", 0, "striped", present=False).shown.any()


def alone(concept):
    """One picture that shows the concept on a single big object."""
    looks = {"shape": "cylinder", "colour": "green", "pattern": None}
    looks[CONCEPTS[concept]] = concept
    place = (0.0, 0.0, half_height(looks["shape"], "big"))
    thing = SceneObject(
        looks["shape"], looks["colour"], "rubber", "big", place, 0.5, looks["pattern"]
    )
    return Stage(Camera.around(), 192, 144, 4).render([thing])


def test_every_concept_is_rendered_and_looks_like_no_other():
    pictures = {concept: alone(concept) for concept in CONCEPTS}
    for concept, picture in pictures.items():
        assert picture.masks[0].sum() > 400, concept
        for other, another in pictures.items():
            apart = np.abs(picture.image.astype(int) - another.image).max(axis=2) > 30
            assert concept == other or apart.sum() > 200, (concept, other)


def test_reserved_shapes_differ_from_the_known_ones_in_outline():
    def outline(shape):
        thing = SceneObject(shape, "red", "rubber", "big", (0, 0, half_height(shape, "big")), 0.6)
        return Stage(Camera.around(), 192, 144, 4).render([thing]).masks[0]

    known = {shape: outline(shape) for shape in SHAPES}
    for concept, family in CONCEPTS.items():
        if family == "shape":
            mask = outline(concept)
            ious = [(mask & other).sum() / (mask | other).sum() for other in known.values()]
            assert max(ious) < 0.9, concept


def test_bad_requests_are_refused():
    with pytest.raises(UnknownNameError, match="reserved concept 'cube'"):
        reserved_scene("train", 0, "cube")
    with pytest.raises(UsageError, match="scene index"):
        reserved_scene("train", SCENES_PER_CONCEPT, "egg")
    with pytest.raises(UnknownNameError):
        reserved_scene("dev", 0, "egg")
