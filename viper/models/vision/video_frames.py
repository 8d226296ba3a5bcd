"""Events in a clip frame by frame, for profiles that have no video model.

The models of two other roles do the work: an image-text matcher or a visual question
answerer tells in which frames an event is seen, the answerer captions frames.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from viper.errors import ToolError
from viper.models.vision.roles import EventWindow, Floats, Matcher, Pixels, VisualAnswerer
from viper.models.vision.video_windows import (
    as_sentences,
    check_at_least,
    checked_texts,
    clamped,
    evenly,
    merged,
    parts,
    smoothed,
)

NEUTRAL = ("a picture in which nothing happens", "a still scene", "something else")
"""What an event has to be likelier than."""

Backend = TypeVar("Backend")

EVENT_QUESTION = "is this happening: {event}?"


@dataclass
class ClipFrames:
    """A clip uint8 [T, H, W, 3] and what the image towers have made of its frames so far.

    Attributes:
        embeddings: frame number to the matcher's embedding, float32 [D].
        encodings: frame number to the answerer's encoding.
    """

    frames: Pixels
    embeddings: dict[int, Floats] = field(default_factory=dict)
    encodings: dict[int, Any] = field(default_factory=dict)


class FramesVideo:
    """A :class:`~viper.models.vision.roles.VideoModel` made of a matcher and a visual answerer.

    Args:
        answerer: the visual question answering backend, or a function that gives it when it
            is needed; None where there is none, and then nothing can be described.
        matcher: the matcher likewise; where there is none, events are located by asking the
            answerer about each frame.
        frames: how many frames of a segment are described at most.
        scored_frames: how many evenly chosen frames of a clip are searched for an event.
        smooth: over how many scored frames to each side a score is averaged.
        neutral: the texts that the matcher compares an event against, at least one.

    Raises:
        ProfileError: a count out of its range, or no neutral texts.
    """

    def __init__(
        self,
        answerer: VisualAnswerer | Callable[[], VisualAnswerer] | None,
        matcher: Matcher | Callable[[], Matcher] | None,
        frames: int = 8,
        *,
        scored_frames: int = 32,
        smooth: int = 1,
        neutral: Sequence[str] = NEUTRAL,
    ) -> None:
        check_at_least(1, frames=frames, scored_frames=scored_frames)
        check_at_least(0, smooth=smooth)
        self._answerer = answerer
        self._matcher = matcher
        self._frames = frames
        self._scored_frames = scored_frames
        self._smooth = smooth
        self._neutral = checked_texts("neutral", neutral, at_least=1)

    @property
    def model_id(self) -> str:
        """What tells its answers from those over other models: their names."""
        backends = (_given(self._matcher), _given(self._answerer))
        return f"frames({'+'.join(each.model_id for each in backends if each is not None)})"

    def encode(self, frames: Pixels) -> ClipFrames:
        """A copy of the clip; image towers run when a frame is first needed, once for each."""
        return ClipFrames(np.array(frames))

    def locate(self, encoding: ClipFrames, event: str) -> list[EventWindow]:
        """Candidate windows of the described event, best first, down to score .01.

        With a matcher a frame's score is the event's share of a softmax over its
        similarities to the event and to the neutral texts; else it is the answerer's
        probability of yes. A scored frame stands for the frames around it.

        Raises:
            ToolError: there is neither.
        """
        ranges = parts(len(encoding.frames), self._scored_frames)
        chosen = [(start + end) // 2 for start, end in ranges]
        scores = self._scores(encoding, chosen, event) if chosen else []
        return merged(
            [
                EventWindow(*where, score)
                for where, score in zip(ranges, smoothed(scores, self._smooth), strict=True)
            ]
        )

    def describe(
        self, encoding: ClipFrames, start: int, end: int, question: str | None = None
    ) -> str:
        """Captions of evenly chosen frames of ``[start, end)``, or answers about each.

        Different ones in the order of time: captions as sentences, answers by commas. A
        range without a frame gives "".

        Raises:
            ToolError: there is no visual question answering model.
        """
        start, end = clamped(start, end, len(encoding.frames))
        if start == end:
            return ""
        answerer = _given(self._answerer)
        if answerer is None:
            raise ToolError(
                "no model of this profile can describe frames; give the role vqa or video to one"
            )
        encodings = self._encodings(answerer, encoding, evenly(start, end, self._frames))
        if question is None:
            return as_sentences(answerer.caption(encodings))
        answers = answerer.answer(encodings, [question] * len(encodings))
        return ", ".join(dict.fromkeys(text for text, _ in answers if text))

    def _scores(self, encoding: ClipFrames, chosen: Sequence[int], event: str) -> list[float]:
        matcher = _given(self._matcher)
        if matcher is not None:
            return self._match(matcher, encoding, chosen, event)
        answerer = _given(self._answerer)
        if answerer is not None:
            return self._ask(answerer, encoding, chosen, event)
        raise ToolError(
            "no model of this profile can locate an event; give the role matcher, vqa or video "
            "to one"
        )

    def _match(
        self, matcher: Matcher, encoding: ClipFrames, chosen: Sequence[int], event: str
    ) -> list[float]:
        new = [i for i in chosen if i not in encoding.embeddings]
        if new:
            rows = matcher.encode_images([encoding.frames[i] for i in new])
            encoding.embeddings.update(zip(new, rows, strict=True))
        images = np.stack([encoding.embeddings[i] for i in chosen])
        texts = matcher.encode_texts([event, *self._neutral])
        scaled = float(matcher.logit_scale) * images @ texts.T
        chances = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return [float(share) for share in chances[:, 0] / chances.sum(axis=1)]

    def _ask(
        self, answerer: VisualAnswerer, encoding: ClipFrames, chosen: Sequence[int], event: str
    ) -> list[float]:
        question = EVENT_QUESTION.format(event=event.strip().rstrip("."))
        encodings = self._encodings(answerer, encoding, chosen)
        replies = answerer.answer(encodings, [question] * len(chosen))
        return [yes_chance(*reply) for reply in replies]

    def _encodings(
        self, answerer: VisualAnswerer, encoding: ClipFrames, chosen: Sequence[int]
    ) -> list[Any]:
        new = [i for i in chosen if i not in encoding.encodings]
        if new:
            made = answerer.encode([encoding.frames[i] for i in new])
            encoding.encodings.update(zip(new, made, strict=True))
        return [encoding.encodings[i] for i in chosen]


def _given(source: Backend | Callable[[], Backend] | None) -> Backend | None:
    return source() if callable(source) else source


def yes_chance(answer: str, probability: float) -> float:
    """The probability of yes by an answer and its probability.

    A no of probability p leaves 1 - p for yes; any other answer is no sign of the event.
    """
    words = re.findall(r"[a-z]+", answer.lower())
    if words[:1] == ["yes"]:
        return probability
    return 1.0 - probability if words[:1] == ["no"] else 0.0
