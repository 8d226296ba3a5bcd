"""How matcher, depth and VQA are scored, with models that know or do not know the truth."""

import numpy as np
import pytest

from viper_lab.recipes import depth, matcher, object_views, vqa
from viper_lab.recipes.object_views import ObjectViews, jittered, recoloured, training_crop
from viper_lab.recipes.object_words import FAMILIES
from viper_lab.recipes.optim import TrainOptions
from viper_lab.world import stills
from viper_lab.world.scene import Scene, SceneObject
from viper_lab.world.stills import StillTruth

THINGS = (
    SceneObject("cube", "red", "metal", "small", (0, 0, 0)),
    SceneObject("ball", "blue", "rubber", "big", (0, 0, 0)),
)
BOXES = np.array([[10, 10, 30, 30], [60, 40, 90, 70]], np.float32)
DEPTHS = np.array([6.0, 9.0], np.float32)


class TwoThings:
    """Three stills that all show the two things, each in a grey of its own."""

    def __len__(self):
        return 3

    @property
    def truths(self):
        visible = np.ones(2, np.float32)
        return [StillTruth(Scene(THINGS, index), BOXES, DEPTHS, visible) for index in range(3)]

    def __getitem__(self, index):
        return self.truths[index]

    def image(self, index):
        picture = np.full((100, 120, 3), 128, np.uint8)
        picture[10:30, 10:30] = 255
        picture[40:70, 60:90] = 0
        return picture


@pytest.fixture
def views():
    return ObjectViews(TwoThings())


class OracleMatcher:
    """Tells the cube from the ball by how bright the middle of a crop is."""

    model_id, logit_scale = "oracle", 1.0

    def encode_images(self, images):
        bright = np.array([image[len(image) // 2, len(image) // 2, 0] > 128 for image in images])
        return np.stack([bright, ~bright], axis=1).astype(np.float32)

    def encode_texts(self, texts):
        def fit(text, thing):
            words = thing.phrase.split()
            return sum(word in words for word in text.split())

        return np.array([[fit(text, thing) for thing in THINGS] for text in texts], np.float32)


def test_a_matcher_that_knows_scores_one_everywhere(views):
    figures = matcher.evaluate(OracleMatcher(), views)
    assert figures["n"] == 6
    assert all(figures[name] == 1.0 for name in [*FAMILIES, "full_phrase"])


class PaintedDepth:
    """Says depth 1 over the cube and 2 over the ball, or the reverse."""

    model_id = "painted"

    def __init__(self, right):
        self.near, self.far = (6.0, 9.0) if right else (9.0, 6.0)

    def depth(self, images):
        painted = np.full((100, 120), 20.0, np.float32)
        painted[10:30, 10:30], painted[40:70, 60:90] = self.near, self.far
        return [painted for _ in images]


@pytest.mark.parametrize(("right", "score"), [(True, 1.0), (False, 0.0)])
def test_depth_is_scored_by_the_order_of_pairs(views, right, score):
    figures = depth.evaluate(PaintedDepth(right), views)
    assert figures["pairs"] == 3
    assert figures["order"] == figures["order_hard"] == score
    assert figures["lower_is_nearer"] == 0.0


class YesSayer:
    """Answers every question with yes."""

    model_id = "yes"

    def encode(self, images):
        return list(images)

    def answer(self, encodings, questions):
        return [("yes", 1.0) for _ in questions]

    def caption(self, encodings):
        return ["a small red metal cube" for _ in encodings]


def test_answers_are_scored_by_what_is_asked(views):
    figures = vqa.evaluate(YesSayer(), views)
    assert figures["colour"] == figures["shape"] == figures["picture_count"] == 0.0
    assert figures["caption"] == 0.5
    assert 0 < figures["yes_no"] < 1


def test_training_crops_have_the_wanted_size(views):
    rng = np.random.default_rng(0)
    crop = training_crop(views, views.pick(rng), 24, rng)
    assert crop.shape == (24, 24, 3) and crop.dtype == np.uint8


def test_recolouring_exchanges_channels():
    crop = np.zeros((2, 2, 3), np.uint8)
    crop[..., 0] = 200
    for seed in range(10):
        other = recoloured(crop, np.random.default_rng(seed))
        assert sorted(other[0, 0]) == [0, 0, 200]


def test_jitter_stays_near_the_box():
    box = jittered((10, 10, 30, 50), np.random.default_rng(0))
    assert np.abs(np.array(box) - [10, 10, 30, 50]).max() <= 2.0


def test_the_vqa_recipe_trains_on_stills_and_frames(tmp_path, monkeypatch):
    monkeypatch.setattr(stills, "SHARD", 4)
    monkeypatch.setattr(object_views, "COUNTS", {"train": 4, "val": 2})
    monkeypatch.setattr(vqa, "TRAIN_FRAMES", 4)
    seen = []

    def cropped(views, view, size, rng):
        seen.append(views.image(view).shape)
        return training_crop(views, view, size, rng)

    monkeypatch.setattr(vqa, "training_crop", cropped)
    figures = vqa.train(TrainOptions(tmp_path / "out", tmp_path / "work", steps=3))
    assert set(seen) == {(144, 192, 3), (120, 160, 3)}
    assert "shape" in figures and (tmp_path / "out" / "model.safetensors").is_file()
