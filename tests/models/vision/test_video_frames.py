"""Events in a clip frame by frame, over models that answer from a script."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.vision.swapping import answer_with
from viper.errors import ProfileError, ToolError
from viper.models.vision.roles import EventWindow
from viper.models.vision.video_frames import FramesVideo, yes_chance
from viper.testing.conformance import check_video
from viper.testing.fakes import FakeAnswerer, FakeMatcher
from viper.tools.models import ModelSet

RED, GREEN = (255, 0, 0), (0, 255, 0)


def clip_of(*colours: tuple[int, int, int]) -> Any:
    """uint8 [T, 6, 8, 3], read-only, one colour a frame."""
    frames = np.stack([np.full((6, 8, 3), colour, np.uint8) for colour in colours])
    frames.setflags(write=False)
    return frames


def numbered(frames: int) -> Any:
    return clip_of(*[(number, 0, 0) for number in range(frames)])


class Teller:
    """A visual answerer that goes by the number in a frame's first pixel."""

    model_id = "teller"

    def __init__(self, says: Callable[[int, str], tuple[str, float]]) -> None:
        self._says = says
        self.encoded: list[int] = []
        self.asked: list[str] = []

    def encode(self, images: Sequence[Any]) -> list[Any]:
        self.encoded += [int(image[0, 0, 0]) for image in images]
        return [int(image[0, 0, 0]) for image in images]

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        self.asked += questions
        return [self._says(frame, text) for frame, text in zip(encodings, questions, strict=True)]

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        return [self._says(frame, "")[0] for frame in encodings]


def never() -> Any:
    raise AssertionError("this model is not needed here")


@pytest.mark.parametrize("with_matcher", [True, False])
def test_it_keeps_the_rules_of_its_role(with_matcher: bool) -> None:
    check_video(FramesVideo(FakeAnswerer(), FakeMatcher() if with_matcher else None))


def test_a_matcher_scores_frames_by_their_share_against_neutral_texts() -> None:
    video = FramesVideo(never, FakeMatcher, smooth=0, neutral=["all green", "all blue"])
    encoding = video.encode(clip_of(GREEN, RED, RED, GREEN))
    # Cosines are 1 and 0 and the scale is 10: e^10 / (e^10 + 2) and 1 / (e^10 + 2).
    (window,) = video.locate(encoding, "all red")
    assert (window.start, window.end) == (1, 3)
    assert window.score == pytest.approx(np.exp(10) / (np.exp(10) + 2), rel=1e-6)


def test_scores_are_smoothed_over_neighbouring_frames() -> None:
    video = FramesVideo(None, FakeMatcher(), neutral=["green", "blue"])
    encoding = video.encode(clip_of(GREEN, GREEN, RED, RED, RED, GREEN, GREEN, GREEN))
    # 0, 1/3, 2/3, 1, 2/3, 1/3, 0, 0 but for shares of some e^-10.
    first, *others = video.locate(encoding, "red")
    assert (first.start, first.end) == (2, 5) and first.score == pytest.approx(1, abs=2e-4)
    assert [(each.start, each.end) for each in others] == [(1, 2), (5, 6)]
    assert [each.score for each in others] == pytest.approx([1 / 3, 1 / 3], abs=2e-4)


def test_without_a_matcher_the_answerer_is_asked_about_each_frame() -> None:
    says = {0: ("no", 0.9), 1: ("yes", 0.6), 2: ("Yes.", 0.8), 3: ("a ball", 0.9)}
    teller = Teller(lambda frame, _: says[frame])
    video = FramesVideo(teller, None, smooth=0)
    windows = video.locate(video.encode(numbered(4)), "the ball rolls.")
    assert windows == [EventWindow(1, 3, 0.8), EventWindow(0, 1, pytest.approx(0.1))]
    assert teller.asked == ["is this happening: the ball rolls?"] * 4


def test_of_a_long_clip_some_frames_are_scored_and_stand_for_those_around() -> None:
    teller = Teller(lambda frame, _: ("yes", 0.9) if frame == 25 else ("yes", 0.2))
    video = FramesVideo(teller, None, scored_frames=4, smooth=0)
    windows = video.locate(video.encode(numbered(40)), "x")
    assert teller.encoded == [5, 15, 25, 35]
    assert windows == [EventWindow(20, 30, 0.9), EventWindow(0, 20, 0.2), EventWindow(30, 40, 0.2)]


def test_image_towers_see_each_frame_once() -> None:
    matcher, teller = FakeMatcher(), Teller(lambda frame, _: (f"thing {frame}", 1.0))
    video = FramesVideo(teller, matcher)
    encoding = video.encode(numbered(6))
    assert (matcher.encoded, teller.encoded) == (0, [])
    for event in ("red", "green", "red"):
        video.locate(encoding, event)
    assert matcher.encoded == 6
    video.describe(encoding, 2, 5)
    video.describe(encoding, 3, 6, "what?")
    assert teller.encoded == [2, 3, 4, 5]


def test_captions_of_evenly_chosen_frames_are_joined_in_the_order_of_time() -> None:
    teller = Teller(lambda frame, _: ("a cup on a table." if frame < 6 else "a dog", 1.0))
    video = FramesVideo(teller, None, 4)
    encoding = video.encode(numbered(16))
    assert video.describe(encoding, 0, 16) == "a cup on a table. a dog."
    assert teller.encoded == [2, 6, 10, 14]
    assert video.describe(encoding, 8, 99) == "a dog."
    assert video.describe(encoding, 9, 9) == video.describe(encoding, 20, 30) == ""


def test_a_question_is_asked_of_the_frames() -> None:
    says = {0: ("red", 1.0), 1: ("", 1.0), 2: ("blue", 1.0), 3: ("red", 1.0)}
    teller = Teller(lambda frame, _: says[frame])
    video = FramesVideo(lambda: teller, never)
    encoding = video.encode(numbered(4))
    assert video.describe(encoding, 0, 4, "what colour?") == "red, blue"
    assert video.describe(encoding, 0, 1, "what colour?") == "red"
    assert teller.asked == ["what colour?"] * 5


def test_an_empty_clip_needs_no_model() -> None:
    video = FramesVideo(never, never)
    encoding = video.encode(np.zeros((0, 6, 8, 3), np.uint8))
    assert video.locate(encoding, "x") == [] and video.describe(encoding, 0, 5) == ""


def test_the_encoding_is_a_copy() -> None:
    frames = np.array(numbered(2))
    teller = Teller(lambda frame, _: (f"thing {frame}", 1.0))
    video = FramesVideo(teller, None)
    encoding = video.encode(frames)
    frames[:] = 99
    assert video.describe(encoding, 0, 2) == "thing 0. thing 1."


def test_a_missing_role_is_named() -> None:
    video = FramesVideo(None, None)
    encoding = video.encode(numbered(2))
    with pytest.raises(ToolError, match="give the role matcher, vqa or video to one"):
        video.locate(encoding, "x")
    with pytest.raises(ToolError, match="give the role vqa or video to one"):
        video.describe(encoding, 0, 2)


def test_models_of_other_roles_are_loaded_on_first_use() -> None:
    loaded = []

    def load(role: str, backend: Any) -> Any:
        loaded.append(role)
        return backend

    models = ModelSet(
        {
            "vqa": lambda: load("vqa", Teller(lambda frame, _: ("a cup", 1.0))),
            "matcher": lambda: load("matcher", FakeMatcher()),
        }
    )
    video = FramesVideo(models.shared("vqa"), models.shared("matcher"), neutral=["green"])
    encoding = video.encode(clip_of(GREEN, RED))
    assert loaded == []
    assert video.locate(encoding, "red")[0].end == 2 and loaded == ["matcher"]
    assert video.describe(encoding, 0, 2) == "a cup." and loaded == ["matcher", "vqa"]


def test_its_name_holds_those_of_its_models() -> None:
    assert FramesVideo(FakeAnswerer, FakeMatcher()).model_id == "frames(fake-matcher+fake-vqa)"
    assert FramesVideo(FakeAnswerer(), None).model_id == "frames(fake-vqa)"


@pytest.mark.parametrize(
    ("option", "value"), [("frames", 0), ("scored_frames", 0), ("smooth", -1), ("neutral", [])]
)
def test_options_out_of_range_are_refused(option: str, value: Any) -> None:
    with pytest.raises(ProfileError, match=f"the option {option} "):
        FramesVideo(None, None, **{option: value})


@pytest.mark.parametrize(
    ("answer", "probability", "chance"),
    [
        ("yes", 0.7, 0.7),
        ("Yes, it is.", 0.7, 0.7),
        ("no", 0.7, 0.3),
        ("No, never", 1.0, 0.0),
        ("nothing", 0.9, 0.0),
        ("yesterday", 0.9, 0.0),
        ("", 0.9, 0.0),
    ],
)
def test_answers_become_chances_of_yes(answer: str, probability: float, chance: float) -> None:
    assert yes_chance(answer, probability) == pytest.approx(chance)


@pytest.mark.models
def test_one_line_of_a_profile_gives_it_its_role(tmp_path: Path) -> None:
    assert answer_with("video", '{ backend = "frames" }', tmp_path) == "True"
