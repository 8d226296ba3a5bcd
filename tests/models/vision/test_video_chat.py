"""Events in a clip by chat models: tiny checkpoints of two families, and scripted scores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_chat

from tests.models.vision.swapping import answer_with
from viper.errors import ProfileError
from viper.models.vision.chat_vlm import ChatVLM
from viper.models.vision.roles import EventWindow
from viper.models.vision.video_chat import ChatVideo
from viper.models.vision.vlm import ChatRequest
from viper.testing.conformance import check_video


@pytest.fixture(autouse=True)
def _endless_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_chat.take_cut_replies(monkeypatch)


@pytest.fixture(scope="module", params=["llava", "qwen2_vl"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat.FAMILIES[request.param](tmp_path_factory.mktemp(request.param))


class Told(ChatVLM):
    """Says yes as often as its table has it for the first frame shown, and records requests."""

    model_id, batches = "told", True

    def __init__(self, chances: Sequence[float] = (), reply: str = "a ball\n rolls ") -> None:
        self.chances, self.reply = chances, reply
        self.asked: list[ChatRequest] = []

    def probability_of_yes(self, requests: Sequence[ChatRequest]) -> list[float]:
        self.asked += requests
        return list(self.chances[: len(requests)])

    def ask(self, requests: Sequence[ChatRequest], max_new_tokens: int) -> list[tuple[str, float]]:
        self.asked += requests
        return [(self.reply, 1.0) for _ in requests]

    def shown(self) -> list[list[int]]:
        """The numbers of the frames of each request."""
        return [[int(image[0, 0, 0]) for image in request.images] for request in self.asked]


def numbered(frames: int) -> Any:
    """A clip whose frames are filled with their number."""
    return np.stack([np.full((6, 8, 3), number, np.uint8) for number in range(frames)])


def test_it_keeps_the_rules_of_its_role(folder: Path) -> None:
    check_video(ChatVideo(ChatVLM.from_pretrained(folder), frames=2))


def test_windows_have_the_models_own_probability_of_yes(folder: Path) -> None:
    clip = tiny_chat.clip(4)
    video = ChatVideo(ChatVLM.from_pretrained(folder), frames=2, window=4)
    question = (
        "These pictures are frames of a video, in the order of time.\n"
        "Does this happen in it: the ball rolls? Answer yes or no."
    )
    vlm = ChatVLM.from_pretrained(folder)
    (chance,) = vlm.probability_of_yes([ChatRequest([clip[1], clip[3]], question)])
    (window,) = video.locate(video.encode(clip), " the ball rolls. ")
    assert (window.start, window.end) == (0, 4)
    assert window.score == pytest.approx(chance, rel=1e-3)


def test_a_description_is_the_models_own(folder: Path) -> None:
    clip = tiny_chat.clip(4)
    video = ChatVideo(ChatVLM.from_pretrained(folder), frames=2, instruction="yes or no ?")
    vlm = ChatVLM.from_pretrained(folder)
    start = "These pictures are frames of a video, in the order of time.\n"
    requests = [
        ChatRequest([clip[1], clip[3]], start + text)
        for text in (
            "Describe what happens in it, in the order of time.",
            "what rolls ?\nyes or no ?",
        )
    ]
    expected = [" ".join(text.split()) for text, _ in vlm.ask(requests, 256)]
    encoding = video.encode(clip)
    assert video.describe(encoding, 0, 4) == expected[0]
    assert video.describe(encoding, 0, 4, "what rolls ?") == expected[1]


def test_windows_are_a_quarter_of_the_clip_half_over_each_other() -> None:
    told = Told([0.02, 0.8, 0.9, 0.1, 0.005, 0.3, 0.3])
    video = ChatVideo(told, frames=2)
    windows = video.locate(video.encode(numbered(16)), "x")
    assert told.shown() == [[1, 3], [3, 5], [5, 7], [7, 9], [9, 11], [11, 13], [13, 15]]
    assert windows == [
        EventWindow(2, 8, 0.9),
        EventWindow(10, 16, 0.3),
        EventWindow(6, 10, 0.1),
        EventWindow(0, 4, 0.02),
    ]


def test_short_clips_are_searched_frame_by_frame() -> None:
    told = Told([0.2, 0.7])
    video = ChatVideo(told)
    assert video.locate(video.encode(numbered(2)), "x") == [
        EventWindow(1, 2, 0.7),
        EventWindow(0, 1, 0.2),
    ]
    assert told.shown() == [[0], [1]]


def test_no_frames_no_windows_no_words() -> None:
    video = ChatVideo(Told())
    encoding = video.encode(np.zeros((0, 6, 8, 3), np.uint8))
    assert video.locate(encoding, "x") == []
    assert video.describe(encoding, 0, 5) == ""


def test_a_segment_is_shown_by_evenly_chosen_frames_of_its_own() -> None:
    told = Told()
    video = ChatVideo(told, frames=3)
    encoding = video.encode(numbered(20))
    assert video.describe(encoding, 6, 12) == "a ball rolls"
    assert video.describe(encoding, 18, 99) == "a ball rolls"
    assert told.shown() == [[7, 9, 11], [18, 19]]
    assert video.describe(encoding, 7, 7) == video.describe(encoding, 30, 40) == ""
    assert len(told.asked) == 2


def test_of_a_long_clip_some_frames_are_kept_and_the_nearest_stands_in() -> None:
    told = Told()
    video = ChatVideo(told, frames=8, kept_frames=4)
    encoding = video.encode(numbered(40))
    assert encoding.indices == (5, 15, 25, 35) and len(encoding.frames) == 4
    video.describe(encoding, 0, 40)
    video.describe(encoding, 17, 20)
    video.describe(encoding, 22, 24)
    assert told.shown() == [[5, 15, 25, 35], [15], [25]]


def test_the_encoding_is_a_copy() -> None:
    told = Told()
    video = ChatVideo(told)
    clip = numbered(2)
    encoding = video.encode(clip)
    clip[:] = 99
    video.describe(encoding, 0, 2)
    assert told.shown() == [[0, 1]]


def test_questions_and_events_reach_the_model() -> None:
    told = Told([0.5])
    video = ChatVideo(told, window=2, instruction="")
    encoding = video.encode(numbered(2))
    video.locate(encoding, "the {red} cube falls.")
    video.describe(encoding, 0, 2, " who falls? ")
    first, second = (request.instruction.splitlines()[1:] for request in told.asked)
    assert first == ["Does this happen in it: the {red} cube falls? Answer yes or no."]
    assert second == ["who falls?"]


@pytest.mark.parametrize("option", ["frames", "kept_frames", "window"])
def test_counts_below_one_are_refused(option: str) -> None:
    counts: dict[str, Any] = {option: 0}
    with pytest.raises(ProfileError, match=f"the option {option} is 0"):
        ChatVideo(Told(), **counts)


def test_it_states_model_and_size(folder: Path) -> None:
    video, vlm = ChatVideo(ChatVLM.from_pretrained(folder)), ChatVLM.from_pretrained(folder)
    assert (video.model_id, video.memory_bytes) == (vlm.model_id, vlm.memory_bytes)


def test_one_line_of_a_profile_gives_it_its_role(folder: Path, tmp_path: Path) -> None:
    assert answer_with("video", f'{{ backend = "chat", model = "{folder}" }}', tmp_path) == "True"
