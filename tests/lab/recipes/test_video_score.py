from typing import Any

import pytest

from viper.embedded import WEIGHTS
from viper.embedded.video_events import VideoEvents
from viper.models.vision.roles import EventWindow
from viper_lab.recipes.video import evaluate, rivals, temporal_iou
from viper_lab.world.clips import sample_clip
from viper_lab.world.events import event_phrase
from viper_lab.world.scene import ClipEvent

VIDEO = WEIGHTS / "video"


class Seer:
    """Knows the events of the clips in the order in which they come; shifts them if told to."""

    model_id = "seer"

    def __init__(self, split: str, shift: int = 0) -> None:
        self._split, self._shift, self._index = split, shift, -1

    def encode(self, frames: Any) -> Any:
        self._index += 1
        clip = sample_clip(self._split, self._index)
        return {event_phrase(event, clip.objects): event for event in clip.events}

    def locate(self, encoding: Any, event: str) -> list[EventWindow]:
        if event not in encoding:
            return []
        known = encoding[event]
        return [EventWindow(known.start + self._shift, known.end + self._shift, 0.9)]

    def describe(self, encoding: Any, start: int, end: int, question: str | None = None) -> str:
        return " ".join(f"{sentence}." for sentence in encoding)


def test_a_perfect_model_scores_one_everywhere_and_a_late_one_loses_overlap() -> None:
    perfect = evaluate(Seer("val"), "val", 2)
    assert perfect.pop("events") >= 4
    assert set(perfect.values()) == {1.0}
    assert evaluate(Seer("val", shift=5), "val", 2)["temporal_iou"] < 0.2


def test_temporal_iou() -> None:
    event = ClipEvent("stop", 0, 10, 15)
    assert temporal_iou(EventWindow(10, 15, 1), event) == 1
    assert temporal_iou(EventWindow(12, 17, 1), event) == pytest.approx(3 / 7)
    assert temporal_iou(EventWindow(20, 25, 1), event) == 0


def test_rivals_are_untrue() -> None:
    clip = sample_clip("val", 2)
    facts = {(e.kind, e.actor, e.target) for e in clip.events}
    for event in clip.events:
        assert not any((r.kind, r.actor, r.target) in facts for _, r in rivals(clip, event))


@pytest.mark.models
def test_the_shipped_weights_locate_events_of_unseen_clips() -> None:
    reached = evaluate(VideoEvents.from_pretrained(VIDEO), "test", 4)
    assert reached["temporal_iou"] > 0.8
    assert reached["right_object"] > 0.6
