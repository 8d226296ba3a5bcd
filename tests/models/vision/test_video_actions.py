"""Events by video classifiers, on tiny checkpoints with random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.models.vision.built import ACTIONS, save
from tests.models.vision.swapping import answer_with
from viper.errors import ModelError, ProfileError
from viper.models.vision.roles import VideoModel
from viper.models.vision.video_actions import ActionWindows, VideoActions
from viper.testing.conformance import check_video


@pytest.fixture(scope="module", params=["videomae", "vjepa2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(request.param, tmp_path_factory.mktemp("weights") / request.param)


@pytest.fixture(scope="module")
def video(folder: Path) -> VideoActions:
    return VideoActions.from_pretrained(folder, step=2)


def clip(frames: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (frames, 40, 60, 3), dtype=np.uint8)


def seen(*rows: tuple[float, float, float]) -> ActionWindows:
    """Windows of 8 frames, each half over the previous one, with these probabilities."""
    windows = tuple((4 * i, 4 * i + 8) for i in range(len(rows)))
    return ActionWindows(4 * len(rows) + 4, windows, np.array(rows, np.float32))


def test_it_keeps_to_its_role(video: VideoActions, folder: Path) -> None:
    assert isinstance(video, VideoModel) and video.model_id.startswith(f"{folder.name}@")
    check_video(video, events=["someone opens a door", "a jump", "a red cube"])


def test_a_window_s_probabilities_are_those_of_the_library(
    video: VideoActions, folder: Path
) -> None:
    import torch
    from transformers import AutoVideoProcessor

    frames = clip(20)
    encoding = video.encode(frames)
    assert encoding.windows == ((0, 8), (4, 12), (8, 16), (12, 20))
    processor = AutoVideoProcessor.from_pretrained(folder)
    inputs = processor(list(frames[[5, 7, 9, 11]]), return_tensors="pt")
    with torch.inference_mode():
        chances = video._model(**inputs).logits.softmax(-1)[0]
    np.testing.assert_allclose(encoding.chances[1], chances, atol=1e-5)
    np.testing.assert_allclose(encoding.chances.sum(1), 1, atol=1e-5)


def test_a_clip_without_frames_has_no_events(video: VideoActions) -> None:
    encoding = video.encode(clip(4)[:0])
    assert video.locate(encoding, "opening a door") == []
    assert video.describe(encoding, 0, 9) == ""


OPEN, CLOSE, JUMP = (0.8, 0.1, 0.1), (0.1, 0.7, 0.2), (0.0, 0.1, 0.9)


@pytest.mark.parametrize(
    ("event", "start", "score"),
    [
        ("someone opens the door", 0, 0.8),
        ("the door is closed", 8, 0.7),
        ("the dog jumped over the fence", 4, 0.9),
    ],
)
def test_an_event_is_where_the_labels_with_its_words_are_likely(
    video: VideoActions, event: str, start: int, score: float
) -> None:
    encoding = seen(OPEN, JUMP, CLOSE, OPEN, JUMP)
    best = video.locate(encoding, event)[0]
    assert best.start <= start < best.end and best.score == pytest.approx(score)


def test_labels_that_fit_an_event_equally_are_added_up(video: VideoActions) -> None:
    (window,) = video.locate(seen(OPEN), "the door")
    assert window.score == pytest.approx(0.9)


@pytest.mark.parametrize("event", ["a red cube hits a ball", "", "the"])
def test_the_vocabulary_is_closed(video: VideoActions, event: str) -> None:
    assert video.locate(seen(OPEN, CLOSE, JUMP), event) == []


def test_a_description_is_the_likeliest_labels_in_order_of_time(video: VideoActions) -> None:
    encoding = seen(OPEN, OPEN, CLOSE, JUMP)
    assert video.describe(encoding, 0, 20) == " ".join(f"{label}." for label in ACTIONS)
    assert video.describe(encoding, 15, 20, "what jumps?") == "jumping."
    assert video.describe(encoding, 1, 2) == "opening a door."
    assert video.describe(encoding, 30, 40) == ""


def test_probabilities_that_are_not_numbers_are_an_error(folder: Path) -> None:
    import torch

    video = VideoActions.from_pretrained(folder)
    torch.nn.init.constant_(video._model.classifier.weight, torch.nan)
    with pytest.raises(ModelError, match=r'probabilities that are not .*dtype = "float32"'):
        video.encode(clip(4))


def test_a_step_below_one_is_refused(folder: Path) -> None:
    with pytest.raises(ProfileError, match="the option step is 0; expected 1 or more"):
        VideoActions.from_pretrained(folder, step=0)


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded as"):
        VideoActions.from_pretrained(save("dpt", tmp_path / "dpt"))


def test_one_line_of_a_profile_gives_it_its_role(folder: Path, tmp_path: Path) -> None:
    line = f'{{ backend = "video_actions", model = "{folder}" }}'
    assert answer_with("video", line, tmp_path) == "True"
