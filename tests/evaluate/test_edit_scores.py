"""Edits judged automatically: what is painted, what is gone, what has to stay as it was."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from viper.data.coco_masks import mask_of
from viper.data.sample import EditTarget, Sample, reach
from viper.errors import UsageError
from viper.evaluate.metrics import metric
from viper.evaluate.metrics.editing import Editing, RolesJudge, edit_verdict, judge_by_roles
from viper.evaluate.reports.tables import target_words
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.models.vision.roles import Detection, Pixels
from viper.storage.json_lines import plain
from viper.tools.edits import blur_outside, color_pop, cover_boxes, emoji_picture
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.world.queries.editing import runs_of

HEIGHT, WIDTH = 60, 80
BOX = (20.0, 10.0, 40.0, 30.0)
REACH = (slice(5, 35), slice(15, 45))


def before() -> Pixels:
    return np.random.default_rng(0).integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8)


def outline() -> np.ndarray:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[12:28, 22:38] = True
    return mask


def target(operation: str, new: str = "") -> EditTarget:
    return EditTarget(operation, "red cube", new, (BOX,), (runs_of(outline()),))


@dataclass
class Eyes:
    """A judge that was told what is to be seen; records what it was asked."""

    seen: set[str]
    asked: list[tuple[str, str]] = field(default_factory=list)

    def shows(self, pixels: Pixels, box: object, phrase: str, over: str) -> bool:
        assert pixels.shape == (HEIGHT, WIDTH, 3) and box == BOX
        self.asked.append((phrase, over))
        return phrase in self.seen


def painted(value: int = 7) -> Pixels:
    picture = before()
    picture[REACH] = value
    return picture


def test_a_replacement_needs_all_three() -> None:
    wanted, judge = target("replace", "blue ball"), Eyes({"blue ball"})
    assert edit_verdict(before(), painted(), wanted, judge) == (True, True, True)
    assert judge.asked == [("blue ball", "red cube"), ("red cube", "blue ball")]
    assert edit_verdict(before(), painted(), wanted, Eyes(set())) == (False, True, True)
    both = Eyes({"blue ball", "red cube"})
    assert edit_verdict(before(), painted(), wanted, both) == (True, False, True)
    beyond = painted()
    beyond[36, 30, 1] ^= 1
    assert edit_verdict(before(), beyond, wanted, judge) == (True, True, False)
    assert edit_verdict(before(), painted()[:-1], wanted, judge) == (False, False, False)


def test_how_far_an_edit_reaches() -> None:
    mask = target("replace", "ball").reach
    assert mask[REACH].all() and mask.sum() == 30 * 30
    wide = reach([(10, 20, 30, 24)], (HEIGHT, WIDTH), square=True)
    assert wide[22, 10] and wide[12, 20] and not wide[5, 20]
    assert reach([(0, 0, 4, 4)], (HEIGHT, WIDTH))[0, 0]


@pytest.mark.parametrize("operation", ["color_pop", "blur_background"])
def test_what_keeps_objects(operation: str) -> None:
    make = color_pop if operation == "color_pop" else blur_outside
    wanted, judge, picture = target(operation), Eyes(set()), before()
    boxed = np.zeros((HEIGHT, WIDTH), bool)
    boxed[10:30, 20:40] = True
    for mask in (outline(), boxed):
        assert edit_verdict(picture, make(picture, mask), wanted, judge).right
    assert judge.asked == []
    nothing = make(picture, np.zeros_like(boxed))
    assert edit_verdict(picture, nothing, wanted, judge) == (True, True, False)
    assert edit_verdict(picture, picture, wanted, judge) == (False, False, True)
    two = boxed.copy()
    two[40:50, 60:70] = True
    assert edit_verdict(picture, make(picture, two), wanted, judge) == (False, True, True)


def test_an_emoji_is_told_from_others() -> None:
    picture, judge = np.full((HEIGHT, WIDTH, 3), 90, np.uint8), Eyes(set())
    wanted = target("put_emoji", "cat_face")

    def with_emoji(name: str, box: tuple[int, ...]) -> Pixels:
        return cover_boxes(picture, [box], emoji_picture(name))

    assert edit_verdict(picture, with_emoji("cat_face", (20, 10, 40, 30)), wanted, judge).right
    assert edit_verdict(picture, with_emoji("cat_face", (21, 10, 41, 31)), wanted, judge).right
    for wrong in (picture, with_emoji("panda", (20, 10, 40, 30))):
        assert not edit_verdict(picture, wrong, wanted, judge).asked
    far = with_emoji("cat_face", (50, 30, 70, 50))
    assert edit_verdict(picture, far, wanted, judge) == (False, False, False)


@pytest.mark.parametrize("first", [False, True])
def test_masks_survive_as_runs(first: bool) -> None:
    mask = np.random.default_rng(3).random((7, 5)) < 0.5
    mask[0, 0] = first
    assert (mask_of(runs_of(mask), 7, 5) == mask).all()


def sample(**changes: object) -> Sample:
    wanted = target("replace", "blue ball")
    made = Sample("e-1", "replace it", task="edit", media="image", target=wanted, load=before)
    return replace(made, **changes)


def test_the_metric_counts_what_is_missing_as_wrong() -> None:
    judged = Editing(lambda sample: Eyes({"blue ball"}))
    right = judged.score(sample(), Prediction({"picture": "edit-1"}, picture=painted()))
    assert right.value == 1 and right.details == {"asked": 1.0, "gone": 1.0, "unchanged": 1.0}
    assert judged.score(sample(), None).value == 0
    assert judged.score(sample(), Prediction({"picture": "edit-1"})).value == 0
    rows = [
        SampleResult.of(sample(), 0, right.value, details=right.details),
        SampleResult.of(sample(sample_id="e-2"), 0, failure="runtime"),
        SampleResult.of(sample(sample_id="e-3"), 0, 0.0, details={"asked": 1.0, "unchanged": 1.0}),
    ]
    figures = metric("editing").figures(rows)
    assert figures.headline == "edited" and figures.n == 3
    values = {name: round(estimate.value, 3) for name, estimate in figures.overall.items()}
    assert values == {"edited": 0.333, "asked": 0.667, "gone": 0.333, "unchanged": 0.667}
    assert target_words(rows[0]) == "replace red cube blue ball"
    assert target_words(replace(rows[0], target=plain(rows[0].target))) == target_words(rows[0])


def test_without_a_judge_or_a_truth_it_says_so() -> None:
    with pytest.raises(UsageError, match="need a judge"):
        metric("editing").score(sample(), None)
    with pytest.raises(UsageError, match="does not say what the edit must be"):
        metric("editing").score(sample(target=None), None)


class Finds:
    """A detector that finds one phrase in one place."""

    model_id = "test:finds"

    def __init__(self, phrase: str, box: tuple[float, ...]) -> None:
        self._phrase, self._box = phrase, box

    def encode(self, images: list[Pixels]) -> list[int]:
        return [0] * len(images)

    def detect(self, encoding: int, phrases: list[str]) -> list[list[Detection]]:
        return [[Detection(self._box, 0.9)] if p == self._phrase else [] for p in phrases]


class Likes:
    """A matcher to which every picture looks like one text."""

    model_id, logit_scale = "test:likes", 10.0

    def __init__(self, text: str) -> None:
        self._text = text

    def encode_images(self, images: list[Pixels]) -> np.ndarray:
        return np.tile(np.float32([1, 0]), (len(images), 1))

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        return np.float32([[1, 0] if text == self._text else [0, 1] for text in texts])


@pytest.mark.parametrize(
    ("found", "liked", "box", "is_shown"),
    [
        ("blue ball", "blue ball", (20, 10, 41, 30), True),
        ("blue ball", "red cube", (20, 10, 41, 30), False),
        ("red cube", "blue ball", (20, 10, 41, 30), False),
        ("blue ball", "blue ball", (40, 30, 60, 50), False),
    ],
)
def test_roles_have_to_agree(
    found: str, liked: str, box: tuple[float, ...], is_shown: bool
) -> None:
    models = ModelSet({"detector": lambda: Finds(found, box), "matcher": lambda: Likes(liked)})
    toolbox = Toolbox(models, ToolSettings())
    assert RolesJudge(toolbox).shows(before(), BOX, "blue ball", "red cube") is is_shown
    assert isinstance(judge_by_roles(toolbox)(sample()), RolesJudge)
    given = Editing(lambda sample: Eyes(set()))
    assert given.with_judge(judge_by_roles(toolbox)) is given
