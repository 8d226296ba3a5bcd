"""Finding what looks like examples: the search by pixels, and the tool around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import pytest

from tests.strategies.bench import Bench
from viper.errors import ToolError
from viper.models.media import media_from
from viper.models.vision.boxes import overlaps
from viper.models.vision.roles import Detection, Pixels
from viper.profiles import read_profile
from viper.sandbox import Ref
from viper.schema import Box, PixelBox
from viper.tools import alike
from viper.tools.alike import LARGEST, MAX_WINDOWS, _windows, find_alike
from viper.tools.models import ModelSet
from viper.tools.settings import DEFAULT_THRESHOLDS, ThresholdSchedule, ToolSettings
from viper.tools.toolbox import Toolbox

SPOTS = [(30, 30), (90, 34), (150, 60), (40, 100), (215, 120)]
SQUARE = (110, 90, 140, 120)


def smear(spots: Sequence[tuple[int, int]] = SPOTS) -> Pixels:
    """Red discs of radius 14 and a blue square on a bright, noisy ground."""
    picture = np.random.default_rng(0).normal(225, 4, (160, 240, 3)).clip(0, 255).astype(np.uint8)
    for spot in spots:
        cv2.circle(picture, spot, 14, (200, 110, 110), -1, cv2.LINE_AA)
    if spots:
        cv2.rectangle(picture, SQUARE[:2], SQUARE[2:], (70, 80, 190), -1)
    return picture


def around(spot: tuple[int, int]) -> PixelBox:
    return (spot[0] - 14.0, spot[1] - 14.0, spot[0] + 14.0, spot[1] + 14.0)


def ref(box: PixelBox, image: str = "image0") -> Ref:
    sides = Box.from_pixels(box, 160)
    return Ref("patch", (image, sides.left, sides.lower, sides.right, sides.upper))


def found_boxes(refs: Sequence[Ref]) -> np.ndarray:
    return np.array([Box(*each.fields[1:5]).to_pixels(160) for each in refs], np.float32)


def toolbox(**settings: Any) -> Toolbox:
    return Toolbox(ModelSet({}), ToolSettings(**settings))


def find_like(examples: Any, patch: Any = None, pictures: Any = None, box: Any = None) -> Any:
    session = (box or toolbox()).session(media_from(smear() if pictures is None else pictures))
    return session.call("find_like", (examples, patch), {}, None), session


def test_things_of_the_examples_kind_come_first() -> None:
    boxes = find_alike(smear(), smear(), np.array([around(SPOTS[0])], np.float32))
    best = np.array([each.box for each in boxes[:5]], np.float32)
    truth = np.array([around(spot) for spot in SPOTS], np.float32)
    assert (overlaps(truth, best).max(1) > 0.5).all()
    scores = [each.score for each in boxes]
    assert scores == sorted(scores, reverse=True) and scores[4] > 0.5
    square = np.array([SQUARE], np.float32)
    others = [each.score for each in boxes if overlaps(square, np.array([each.box]))[0, 0] > 0.5]
    assert max(others, default=0.0) < 0.4


def test_windows_are_bounded_by_longer_steps() -> None:
    windows = _windows((3000, 4000), np.array([10.0, 10.0], np.float32))
    assert MAX_WINDOWS / 2 < len(windows) < 1.2 * MAX_WINDOWS


def test_pictures_of_large_examples_are_shrunk_and_smoothed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    smoothed: list[tuple[int, ...]] = []
    monkeypatch.setattr(
        alike.cv2,
        "GaussianBlur",
        lambda lab, *more: smoothed.append(lab.shape) or cv2.GaussianBlur(lab, *more),
        raising=False,
    )
    large = cv2.resize(smear(), None, fx=10, fy=10)
    boxes = find_alike(large, large, 10 * np.array([around(SPOTS[0])], np.float32))
    assert smoothed == [(round(1600 * LARGEST / 280), round(2400 * LARGEST / 280), 3)]
    best = np.array([each.box for each in boxes[:5]], np.float32)
    truth = 10 * np.array([around(spot) for spot in SPOTS], np.float32)
    assert (overlaps(truth, best).max(1) > 0.5).all()
    other = find_alike(smear(), smear().copy(), np.array([around(SPOTS[0])], np.float32))
    assert len(smoothed) == 3 and len(other) >= 5


def test_a_picture_smaller_than_the_examples_has_nothing_alike() -> None:
    assert find_alike(smear()[:3], smear(), np.array([[0, 0, 150, 150]], np.float32)) == []


def test_of_many_boxes_the_likeliest_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "MAX_BOXES", 2)
    assert 1 <= len(find_alike(smear(), smear(), np.array([around(SPOTS[0])], np.float32))) <= 2


def test_a_side_that_opencv_cannot_map_is_refused() -> None:
    wide = np.zeros((20, 33_000, 3), np.uint8)
    with pytest.raises(ToolError, match="33000 x 20 pixels.*expected sides below 32,767"):
        find_alike(wide, wide, np.array([[0, 0, 10, 10]], np.float32))
    wide = np.zeros((200, 33_000, 3), np.uint8)
    assert find_alike(wide, wide, np.array([[0, 0, 190, 190]], np.float32)) is not None


def test_the_tool_returns_examples_first_and_no_other_kind() -> None:
    refs, session = find_like([ref(around(SPOTS[2])), ref(around(SPOTS[0]))])
    assert len(refs) == len(SPOTS)
    assert found_boxes(refs[:2]).tolist() == [[*around(SPOTS[2])], [*around(SPOTS[0])]]
    (call,) = session.calls
    assert call.judged_by == "like.threshold" and call.scores[:2] == (1.0, 1.0)


def test_a_single_patch_is_an_example() -> None:
    assert len(find_like(ref(around(SPOTS[1])))[0]) == len(SPOTS)


def test_a_part_and_another_picture_can_be_searched() -> None:
    example = ref(around(SPOTS[0]))
    left, _ = find_like([example], ref((0, 0, 120, 160)))
    assert len(left) == 3
    pictures = [smear(), smear(SPOTS[3:])]
    other, _ = find_like([example], Ref("image", ("image1", 240, 160)), pictures)
    assert len(other) == 2 and {each.fields[0] for each in other} == {"image1"}


def test_the_schedule_of_photo_lite_starts_at_the_default() -> None:
    schedule = read_profile("photo-lite").tools.sensitivities["like.threshold"]
    assert schedule.start == DEFAULT_THRESHOLDS["like.threshold"]


def test_a_threshold_of_the_profile_moves_the_result_without_another_search() -> None:
    schedule = {"like.threshold": ThresholdSchedule(0.999, 0.5, 0.1)}
    box = toolbox(sensitivities=schedule)
    pictures = [smear(), smear(SPOTS[3:])]
    example, place = [ref(around(SPOTS[0]))], Ref("image", ("image1", 240, 160))
    media = media_from(pictures)
    strict = box.session(media, thresholds={"like.threshold": 0.999})
    assert strict.call("find_like", (example, place), {}, None) == []
    assert strict.calls[0].rejected_by == "like.threshold"
    loose = box.session(media, thresholds={"like.threshold": 0.4})
    assert len(loose.call("find_like", (example, place), {}, None)) == 2
    assert loose.calls[0].cached


def test_a_picture_with_nothing_alike_gives_an_empty_list() -> None:
    place = Ref("image", ("image1", 240, 160))
    assert find_like([ref(around(SPOTS[0]))], place, [smear(), smear([])])[0] == []


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "1 to 4 example patches, got 0"),
        ([ref(around(SPOTS[0]))] * 5, "got 5"),
        ([ref((10, 10, 10, 30))], "0 x 20 pixels; expected 8 or more"),
        ([ref((10, 10, 14, 30))], "4 x 20 pixels"),
        ([ref(around(SPOTS[0])), ref(around(SPOTS[0]), "image1")], "several pictures"),
        (["cell"], "expected an image patch"),
    ],
)
def test_wrong_examples_are_refused(examples: Any, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        find_like(examples, None, [smear(), smear()])


class GuidedDetector:
    """A detector with image guidance that records what it is asked."""

    model_id = "guided"
    image_guided = True

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        return [image.shape for image in images]

    def detect_like(self, encoding: Any, source: Any, examples: Any) -> list[Detection]:
        self.asked.append((encoding, source, examples))
        return [Detection(around(SPOTS[4]), 0.9), Detection(around(SPOTS[0]), 0.8)]


def test_a_detector_with_image_guidance_is_asked_instead() -> None:
    detector = GuidedDetector()
    box = Toolbox(ModelSet({"detector": lambda: detector}), ToolSettings())
    refs, _ = find_like([ref(around(SPOTS[0]))], box=box)
    assert found_boxes(refs).tolist() == [[*around(SPOTS[0])], [*around(SPOTS[4])]]
    assert detector.asked == [((160, 240, 3), (160, 240, 3), ((16, 16, 44, 44),))]


def test_programs_get_patches_that_know_their_picture() -> None:
    program = (
        "def execute_command(image):\n"
        "    image_patch = ImagePatch(image)\n"
        "    found = find_like(image_patch.crop(16, 116, 44, 144))\n"
        "    return [len(found), len(find_like(found[:3], found[0].crop(0, 0, 28, 28)))]\n"
    )
    with Bench([]) as bench:
        result = bench.reasoner.execute(program, smear(), "how many?", task="question")
    assert result.value == "5, 1"
