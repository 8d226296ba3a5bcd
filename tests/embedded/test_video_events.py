import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.models.vision.swapping import answer_with
from viper.embedded.video_events import (
    MAX_WINDOWS,
    NOTHING,
    ClipEncoding,
    SeenEvent,
    VideoEvents,
    bearing_on,
    candidate_windows,
    mentioned,
    without_rivals,
)
from viper.errors import ModelError
from viper.models.vision.roles import EventWindow, VideoModel
from viper_lab.recipes.optim import save_half
from viper_lab.recipes.video import build_model, build_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model on disk."""
    path = tmp_path_factory.mktemp("video")
    tokenizer = build_tokenizer()
    save_half(build_model(tokenizer), path, tokenizer)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> VideoEvents:
    return VideoEvents.from_pretrained(folder)


def test_the_floats_of_a_resized_clip_are_freed_part_by_part(
    model: VideoEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier: list[weakref.ref[torch.Tensor]] = []
    interpolate = functional.interpolate

    def watched(part: torch.Tensor, *args: Any, **how: Any) -> torch.Tensor:
        assert not any(each() is not None for each in earlier)
        earlier.append(weakref.ref(part))
        return interpolate(part, *args, **how)

    monkeypatch.setattr(functional, "interpolate", watched)
    model.encode(np.zeros((20, 30, 40, 3), np.uint8))
    assert len(earlier) == 3


def log_peak(frames: int, at: dict[int, float]) -> np.ndarray:
    return np.log([at.get(frame, 1e-9) for frame in range(frames)]).astype(np.float32)


def test_the_best_window_has_the_probability_that_the_event_happens() -> None:
    starts, ends = log_peak(32, {10: 0.8, 20: 0.2}), log_peak(32, {14: 0.8, 24: 0.2})
    windows = candidate_windows(starts, ends, 0.9)
    assert windows[0] == EventWindow(10, 15, 0.9)
    assert (windows[1].start, windows[1].end) == (20, 25)
    assert windows[1].score == pytest.approx(0.9 * 0.2 * 0.2 / 0.64)


def test_unlikely_windows_are_left_out() -> None:
    flat = np.full(8, -np.log(8), np.float32)
    assert candidate_windows(flat, flat, 0.009) == []
    assert len(candidate_windows(flat, flat, 0.5)) == MAX_WINDOWS


def test_a_single_frame_is_a_window_of_its_own() -> None:
    one = np.zeros(1, np.float32)
    assert candidate_windows(one, one, 0.5) == [EventWindow(0, 1, 0.5)]


def test_it_is_a_video_model_that_takes_clips_of_any_size_and_length(model: VideoEvents) -> None:
    assert isinstance(model, VideoModel)
    for shape in ((1, 30, 40, 3), (40, 120, 160, 3)):
        frames = np.full(shape, 90, np.uint8)
        encoding = model.encode(frames)
        windows = model.locate(encoding, "the zebra hits the red ball, again and again" * 9)
        assert all(0 <= w.start < w.end <= shape[0] for w in windows)
        scores = [w.score for w in windows]
        assert scores == sorted(scores, reverse=True)


def test_a_text_is_encoded_once(model: VideoEvents, monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = model.encode(np.zeros((4, 120, 160, 3), np.uint8))
    first = model.locate(encoding, "the red cube stops")

    def refuse(*_: object) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr(model._model, "encode_texts", refuse)
    assert model.locate(encoding, "the red cube stops") == first


def test_descriptions_list_events_by_time_and_keep_to_the_question(model: VideoEvents) -> None:
    encoding = model.encode(np.zeros((4, 120, 160, 3), np.uint8))
    cube, ball = "red cube", "red ball"
    given = (frozenset[str](), frozenset({ball}))
    events = [
        SeenEvent("the red cube starts moving", "start", cube, "", EventWindow(2, 7, 0.9)),
        SeenEvent("the red cube hits it", "hit", cube, ball, EventWindow(9, 14, 0.9)),
        SeenEvent("the red ball starts moving", "start", ball, "", EventWindow(11, 16, 0.9)),
    ]
    listed = ClipEncoding(encoding.features, encoding.frames, dict.fromkeys(given, events))
    assert model.describe(listed, 8, 32) == "the red cube hits it. the red ball starts moving."
    asked = "what does the red ball do?"
    assert model.describe(listed, 0, 32, asked) == "the red ball starts moving."
    assert model.describe(listed, 20, 32) == NOTHING


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded as"):
        VideoEvents.from_pretrained(tmp_path)


def test_of_two_events_of_a_kind_at_one_time_the_likelier_is_believed() -> None:
    def seen(kind: str, actor: str, start: int, score: float) -> SeenEvent:
        return SeenEvent(f"the {actor}", kind, actor, "", EventWindow(start, start + 5, score))

    sure, rival = seen("start", "red ball", 3, 0.9), seen("start", "red cube", 4, 0.6)
    later, other = seen("start", "red cube", 12, 0.5), seen("stop", "red cube", 3, 0.4)
    assert without_rivals([rival, other, sure, later], 5) == [sure, later, other]
    assert len(without_rivals([rival, other, sure, later], 0)) == 4


def test_one_line_of_a_profile_gives_it_its_role(folder: Path, tmp_path: Path) -> None:
    line = f'{{ backend = "video_events", model = "{folder}" }}'
    assert answer_with("video", line, tmp_path) == "True"


NAMES = ("red cube", "red ball", "blue ball")
TEMPLATES = {
    "start": "{a} starts moving",
    "stop": "{a} stops",
    "hit": "{a} hits {b}",
    "fall": "{a} falls off the table",
    "appear": "{a} appears",
}


def seen(kind: str, actor: str, target: str = "") -> SeenEvent:
    text = TEMPLATES[kind].format(a=f"the {actor}", b=f"the {target}")
    return SeenEvent(text, kind, actor, target, EventWindow(0, 5, 0.9))


START = seen("start", "red cube")
HIT = seen("hit", "red cube", "blue ball")
PUSHED = seen("start", "blue ball")
STOP = seen("stop", "red cube")
FALL = seen("fall", "blue ball")
EVENTS = (START, HIT, PUSHED, STOP, FALL)


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        ("", EVENTS),
        ("what happens?", EVENTS),
        ("What does the red cube do?", (START, HIT, STOP)),
        ("what does the red cube hit?", (HIT,)),
        ("what hits the blue ball?", (HIT,)),
        ("what starts moving?", (START, PUSHED)),
        ("what falls off the table?", (FALL,)),
        ("what happens to the blue ball?", (HIT, PUSHED, FALL)),
        ("what does the cube do", (START, HIT, STOP)),
        ("does the blue ball stop?", (HIT, PUSHED, FALL)),
        ("what hits the red ball?", ()),
        ("what appears?", ()),
    ],
)
def test_events_that_bear_on_a_question(question: str, kept: tuple[SeenEvent, ...]) -> None:
    assert bearing_on(question, EVENTS, NAMES, TEMPLATES) == list(kept)


def test_names_in_full_count_before_single_words() -> None:
    assert mentioned("does the red cube hit the blue ball", NAMES) == {"red cube", "blue ball"}
    assert mentioned("what about the red thing", NAMES) == {"red cube", "red ball"}
    assert mentioned("what happens last?", NAMES) == set()
