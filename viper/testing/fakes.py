"""Models that answer from a table and tools that answer from a script, for tests of their users.

They count or record their calls, so a test can check that a tower ran once. There is a fake of each
role of :mod:`viper.models.vision.roles`, and :class:`ScriptedTools` for programs in a sandbox.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viper.errors import ScriptExhaustedError
from viper.models.vision.roles import Detection, EventWindow, Floats, Mask, Pixels, Segment

# Colours that the fakes know, in the order of RGB.
_AXES = ("red", "green", "blue")


class FakeDetector:
    """Returns the boxes of its table for any picture.

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
        return [_detections(self._boxes.get(phrase, ())) for phrase in phrases]


class FakeMatcher:
    """Embeds a picture as its mean colour, and the words red, green, blue as those axes."""

    model_id = "fake-matcher"
    logit_scale = 10.0

    def __init__(self) -> None:
        self.encoded = 0

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        self.encoded += len(images)
        rows = [image.reshape(-1, 3).mean(axis=0) for image in images]
        return _normalised(np.array(rows).reshape(len(images), 3))

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        rows = [[float(axis in text.split()) for axis in _AXES] for text in texts]
        return _normalised(np.array(rows))


class FakeDepth:
    """Returns depth that grows towards the top of the picture."""

    model_id = "fake-depth"

    def __init__(self) -> None:
        self.encoded = 0

    def depth(self, images: Sequence[Pixels]) -> list[Floats]:
        self.encoded += len(images)
        columns = [np.linspace(1, 0, len(image), dtype=np.float32)[:, None] for image in images]
        return [
            column.repeat(image.shape[1], 1) for column, image in zip(columns, images, strict=True)
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


class FakeSegmenter:
    """Returns the segments of its table for any picture: ellipses that fill their boxes.

    Args:
        objects: ``(label, pixel box, score)``, best first; later ones give way to earlier ones.
    """

    model_id = "fake-segmenter"

    def __init__(self, objects: Sequence[tuple[str, Sequence[float], float]]) -> None:
        self._objects = objects
        self.encoded: list[tuple[int, ...]] = []

    def encode(self, pixels: Pixels) -> Any:
        self.encoded.append(pixels.shape)
        return pixels.shape[:2]

    def segments(self, encoding: Any, names: Sequence[str] | None) -> list[Segment]:
        rows, columns = np.ogrid[: encoding[0], : encoding[1]]
        covered = np.zeros(encoding, np.bool_)
        segments = []
        for label, (x0, y0, x1, y1), score in self._objects:
            across = (columns + 0.5 - (x0 + x1) / 2) / ((x1 - x0) / 2)
            along = (rows + 0.5 - (y0 + y1) / 2) / ((y1 - y0) / 2)
            # the ellipse that fills the box, so that an outline differs from its box
            mask = (across**2 + along**2 <= 1) & ~covered
            covered |= mask
            if mask.any() and (names is None or label in names):
                segments.append(Segment(mask, label, score))
        return segments


class FakeInpainter:
    """Paints one colour: the one of red, green and blue that the prompt names, else grey."""

    model_id = "fake-inpainter"

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def inpaint(self, pixels: Pixels, mask: Mask, prompt: str, seed: int) -> Pixels:
        self.asked.append((prompt, seed))
        colour = [255 * (axis in prompt.split()) for axis in _AXES]
        painting = pixels.copy()
        painting[mask] = colour if any(colour) else 128
        return painting


class FakeFaces:
    """Returns its boxes as faces for any picture."""

    model_id = "fake-faces"

    def __init__(self, boxes: Sequence[tuple[Sequence[float], float]]) -> None:
        self._boxes = boxes

    def faces(self, pixels: Pixels) -> list[Detection]:
        return _detections(self._boxes)


class FakeVideoModel:
    """Returns events at the windows of its table; descriptions list those inside a range."""

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
        events = sorted((first, event, last) for event, (first, last, _) in self._events.items())
        return " ".join(
            f"{event}." for first, event, last in events if first < end and last > start
        )


class FakeLanguage:
    """Selects the first option that occurs in the information, else the first."""

    model_id = "fake-language"

    def select(self, info: str, question: str, options: Sequence[str]) -> str:
        return next((option for option in options if option in info), options[0])

    def answer(self, question: str, *, context: str | None, long_answer: bool) -> str:
        return f"about {question}"


@dataclass(frozen=True)
class ScriptedCall:
    """One call of a program."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    line: int | None


class ScriptedTools:
    """Answers calls from a script and records them; fails when the script is exhausted.

    Args:
        answers: either a list, used in order for any tool, or a mapping from
            tool name to the list of its answers. An answer that is an exception is
            raised; a callable is called with the arguments of the call. In place of a
            list, a mapping may hold one callable, which answers every call.

    Attributes:
        calls: the calls so far.

    Example:
        >>> tools = ScriptedTools({"add": [3]})
        >>> tools.call("add", (1, 2), {}, None)
        3
        >>> tools.calls[0].args
        (1, 2)
    """

    def __init__(
        self, answers: Sequence[Any] | Mapping[str, Sequence[Any] | Callable[..., Any]] = ()
    ) -> None:
        self.calls: list[ScriptedCall] = []
        self._lock = threading.Lock()
        self._in_order = None if isinstance(answers, Mapping) else list(answers)
        by_name = answers if isinstance(answers, Mapping) else {}
        self._by_name = {n: s if callable(s) else list(s) for n, s in by_name.items()}

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        """Return the next answer of the script.

        Raises:
            ScriptExhaustedError: the script holds no more answers for this call.
        """
        with self._lock:
            self.calls.append(ScriptedCall(name, args, dict(kwargs), line))
            script = self._by_name.get(name, []) if self._in_order is None else self._in_order
            if not callable(script) and not script:
                problem = f"call {len(self.calls)} asks for {name!r}"
                raise ScriptExhaustedError(f"{problem}, the script has no answer left for it")
            answer = script if callable(script) else script.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer(*args, **kwargs) if callable(answer) else answer


def _detections(boxes: Sequence[tuple[Sequence[float], float]]) -> list[Detection]:
    return [Detection((float(a), float(b), float(c), float(d)), e) for (a, b, c, d), e in boxes]


def _normalised(rows: np.ndarray[Any, Any]) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.maximum(lengths, 1e-9)).astype(np.float32)
