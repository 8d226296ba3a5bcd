"""Models that answer from a table, for tests of whatever stands above them.

They count what they are asked, so a test can say that a tower ran once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from viper.tools.roles import Detection, EventWindow, Floats, Pixels


class FakeDetector:
    """Finds what its table says, whatever the picture.

    Args:
        boxes: phrase to ``(pixel box, score)`` pairs, best first.
    """

    model_id = "fake-detector"

    def __init__(self, boxes: Mapping[str, Sequence[tuple[Sequence[float], float]]]) -> None:
        self._boxes = boxes
        self.encoded: list[tuple[int, ...]] = []
        self.detected: list[str] = []

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        self.encoded += [image.shape for image in images]
        return [image.shape for image in images]

    def detect(self, encoding: Any, phrases: Sequence[str]) -> list[list[Detection]]:
        self.detected += list(phrases)
        return [
            [
                Detection((float(box[0]), float(box[1]), float(box[2]), float(box[3])), score)
                for box, score in self._boxes.get(phrase, ())
            ]
            for phrase in phrases
        ]


class FakeMatcher:
    """Embeds a picture as its mean colour and the words red, green, blue as those axes."""

    model_id = "fake-matcher"
    logit_scale = 10.0

    def __init__(self) -> None:
        self.encoded = 0

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        self.encoded += len(images)
        rows = [image.reshape(-1, 3).mean(axis=0) for image in images]
        return _normalised(np.array(rows).reshape(len(images), 3))

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        axes = ("red", "green", "blue")
        rows = [[float(axis in text.split()) for axis in axes] for text in texts]
        return _normalised(np.array(rows))


class FakeDepth:
    """Depth grows towards the top of the picture."""

    model_id = "fake-depth"

    def __init__(self) -> None:
        self.encoded = 0

    def depth(self, images: Sequence[Pixels]) -> list[Floats]:
        self.encoded += len(images)
        return [
            np.broadcast_to(
                np.linspace(1, 0, image.shape[0], dtype=np.float32)[:, None], image.shape[:2]
            ).copy()
            for image in images
        ]


class FakeAnswerer:
    """Answers questions from a table; unknown ones with ``unknown``."""

    model_id = "fake-vqa"

    def __init__(self, answers: Mapping[str, str] | None = None) -> None:
        self._answers = answers or {}
        self.encoded = 0

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        self.encoded += len(images)
        return [image.shape for image in images]

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        return [(self._answers.get(question, "unknown"), 1.0) for question in questions]

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        return ["a picture" for _ in encodings]


class FakeVideoModel:
    """Events at the windows of its table; descriptions list those inside a range."""

    model_id = "fake-video"

    def __init__(self, events: Mapping[str, tuple[int, int, float]]) -> None:
        self._events = events
        self.encoded = 0

    def encode(self, frames: Pixels) -> Any:
        self.encoded += 1
        return len(frames)

    def locate(self, encoding: Any, event: str) -> list[EventWindow]:
        return [EventWindow(*self._events[event])] if event in self._events else []

    def describe(self, encoding: Any, start: int, end: int, question: str | None = None) -> str:
        inside = sorted(
            (first, event)
            for event, (first, last, _) in self._events.items()
            if first < end and last > start
        )
        return " ".join(f"{event}." for _, event in inside)


class FakeLanguage:
    """Selects the first option that stands in the information, else the first."""

    model_id = "fake-language"

    def select(self, info: str, question: str, options: Sequence[str]) -> str:
        return next((option for option in options if option in info), options[0])

    def answer(self, question: str, *, context: str | None, long_answer: bool) -> str:
        return f"about {question}"


def _normalised(rows: np.ndarray[Any, Any]) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.maximum(lengths, 1e-9)).astype(np.float32)
