import itertools
from collections import Counter

import numpy as np
import pytest

from viper.errors import UnknownNameError, UsageError
from viper_lab.world.layout import MIN_SIDE, MIN_VISIBLE, sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.render_shapes import half_height
from viper_lab.world.scene import IMAGE_HEIGHT, IMAGE_WIDTH, RenderedScene, Scene, SceneObject
from viper_lab.world.vocabulary import COLOURS, HELD_OUT_COMBINATIONS, MATERIALS, SHAPES, SIZES


@pytest.fixture(scope="module")
def rendered() -> list[RenderedScene]:
    return [render_scene(sample_scene("train", index)) for index in range(40)]


@pytest.fixture(scope="module")
def scenes() -> dict[str, list[Scene]]:
    return {split: [sample_scene(split, i) for i in range(60)] for split in ("train", "test")}


def looks(*words: tuple[str, str, str | None]) -> list[SceneObject]:
    return [SceneObject(s, c, "rubber", "big", (0, 0, 0), pattern=p) for s, c, p in words]


def held_out(scene: Scene) -> bool:
    return any((thing.colour, thing.shape) in HELD_OUT_COMBINATIONS for thing in scene.objects)


def test_a_scene_is_a_function_of_split_and_index():
    assert sample_scene("val", 3) == sample_scene("val", 3)
    assert sample_scene("val", 3).objects != sample_scene("val", 4).objects
    assert sample_scene("val", 3).objects != sample_scene("train", 3).objects


def test_training_scenes_hold_no_held_out_pair(scenes):
    assert not any(map(held_out, scenes["train"]))


def test_about_two_in_five_test_scenes_hold_one(scenes):
    assert 0.25 <= np.mean([held_out(scene) for scene in scenes["test"]]) <= 0.55


def test_attributes_are_those_of_the_vocabulary(scenes):
    things = [thing for scene in scenes["train"] for thing in scene.objects]
    assert {thing.shape for thing in things} == set(SHAPES)
    assert {thing.colour for thing in things} == set(COLOURS)
    assert {thing.material for thing in things} == set(MATERIALS)
    assert {thing.size for thing in things} == set(SIZES)
    assert {thing.pattern for thing in things} == {None}


def test_number_of_objects_is_within_what_was_asked():
    counts = {
        len(sample_scene("train", i, min_objects=2, max_objects=3).objects) for i in range(12)
    }
    assert counts == {2, 3}


def test_half_of_the_scenes_or_more_repeat_a_shape(scenes):
    repeated = [
        max(Counter(thing.shape for thing in scene.objects).values()) > 1
        for scene in scenes["train"]
    ]
    assert np.mean(repeated) > 0.5


def test_every_object_can_be_seen(rendered):
    for scene in rendered:
        assert (scene.visible >= MIN_VISIBLE).all()
        sides = scene.boxes[:, 2:] - scene.boxes[:, :2]
        assert (sides >= MIN_SIDE - 1).all()
        assert (scene.boxes >= 0).all()
        assert (scene.boxes[:, 2] <= IMAGE_WIDTH).all()
        assert (scene.boxes[:, 3] <= IMAGE_HEIGHT).all()


def test_height_in_the_picture_does_not_give_depth_away(rendered):
    # Were every lower box the nearer object, a depth model would be idle.
    agree = [
        (scene.boxes[i, 3] > scene.boxes[j, 3]) == (scene.object_depths[i] < scene.object_depths[j])
        for scene in rendered
        for i, j in itertools.combinations(range(len(scene.boxes)), 2)
        if scene.boxes[i, 3] != scene.boxes[j, 3]
    ]
    assert 0.6 < np.mean(agree) <= 0.85


def test_some_objects_do_not_stand_on_the_table(scenes):
    lifts = [
        thing.position[2] - half_height(thing.shape, thing.size)
        for scene in scenes["train"]
        for thing in scene.objects
    ]
    assert min(lifts) > -1e-6
    assert 0.15 < np.mean(np.array(lifts) > 0.05) < 0.45


def test_given_objects_keep_their_looks_and_get_places():
    wanted = looks(("pyramid", "pink", None), ("egg", "orange", "striped"), ("cube", "red", None))
    scene = sample_scene("train", 0, objects=wanted)
    assert [thing.phrase for thing in scene.objects] == [thing.phrase for thing in wanted]
    assert len({thing.position for thing in scene.objects}) == 3


def test_held_out_pairs_cannot_be_asked_for_in_training():
    wanted = looks(("cone", "red", None))
    with pytest.raises(UsageError, match="red cone is held out"):
        sample_scene("train", 0, objects=wanted)
    assert sample_scene("test", 0, objects=wanted).objects[0].phrase == "big red rubber cone"


def test_too_many_objects_are_refused_in_one_line(monkeypatch):
    monkeypatch.setattr("viper_lab.world.layout._TRIES", 2)
    with pytest.raises(UsageError, match="no clear layout of 60 objects in 2 tries"):
        sample_scene("train", 0, min_objects=60, max_objects=60)


def test_an_unknown_split_is_refused():
    with pytest.raises(UnknownNameError):
        sample_scene("dev", 0)
