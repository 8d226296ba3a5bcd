"""Events in a clip frame by frame, for profiles that have no video model.

The models of two other roles do the work. ``locate`` scores evenly chosen frames, by an image-text
matcher or by a question to a visual answerer, smooths the scores and merges neighbours.
``describe`` captions evenly chosen frames, or asks the question about each. Every place that
chooses frames is listed in :mod:`viper.models.media`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from viper.errors import ToolError
from viper.models.options import check_at_least, checked_texts
from viper.models.vision.roles import EventWindow, Floats, Matcher, Pixels, VisualAnswerer
from viper.models.vision.video_windows import as_sentences, candidates, clamp, evenly, parts, smooth

# Texts that an event must be likelier than; they fit frames in which it does not happen.
NEUTRAL = ("a picture in which nothing happens", "a still scene", "something else")

Backend = TypeVar("Backend")

EVENT_QUESTION = "is this happening: {event}?"


@dataclass
class ClipFrames:
    """Clip uint8 [T, H, W, 3] and the encodings of its frames so far.

    Attributes:
        embeddings: frame number to the matcher's embedding, float32 [D].
        encodings: frame number to the answerer's encoding.
    """

    frames: Pixels
    embeddings: dict[int, Floats] = field(default_factory=dict)
    encodings: dict[int, Any] = field(default_factory=dict)

    def encoded(
        self, cache: dict[int, Any], chosen: Sequence[int], encode: Callable[[list[Pixels]], Any]
    ) -> list[Any]:
        """Return what a cache holds for these frames, after the missing ones are encoded."""
        new = [i for i in chosen if i not in cache]
        if new:
            cache.update(zip(new, encode([self.frames[i] for i in new]), strict=True))
        return [cache[i] for i in chosen]


class FramesVideo:
    """A :class:`~viper.models.vision.roles.VideoModel` made of a matcher and a visual answerer.

    Args:
        answerer: the visual question answering backend, or a function that returns it when needed;
            without one (None) nothing can be described.
        matcher: the matcher, in the same form; without one the answerer locates events by a
            question about each frame.
        frames: maximum number of frames of a segment to describe; neighbours get the same caption.
        scored_frames: number of evenly chosen frames of a clip to search for an event, each a run
            of the image tower.
        smooth: number of scored frames on each side to average a score over, because single frames
            are blurred or hidden.
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
    def _backends(self) -> list[Any]:
        backends = (_backend_of(self._matcher), _backend_of(self._answerer))
        return [each for each in backends if each is not None]

    @property
    def model_id(self) -> str:
        """Return an id made of the names of the models, for traces and cache keys."""
        return f"frames({'+'.join(each.model_id for each in self._backends)})"

    @property
    def asks_language_model(self) -> bool:
        """Return True if one of the models is a language model."""
        return any(getattr(each, "asks_language_model", False) for each in self._backends)

    @property
    def concurrent(self) -> bool:
        """Return True if the models serve callers concurrently, as endpoints do."""
        return all(getattr(each, "concurrent", False) for each in self._backends)

    def encode(self, frames: Pixels) -> ClipFrames:
        """Return a copy of the clip; image towers run once per frame, when it is first needed."""
        return ClipFrames(np.array(frames))

    def locate(self, encoding: ClipFrames, event: str) -> list[EventWindow]:
        """Return candidate windows of the described event, best first, down to score .01.

        With a matcher a frame's score is the event's share of a softmax over its similarities to
        the event and to the neutral texts. Otherwise it is the answerer's probability of yes. A
        scored frame stands for the frames around it.

        Raises:
            ToolError: there is neither a matcher nor an answerer.
        """
        ranges = parts(len(encoding.frames), self._scored_frames)
        chosen = [(start + end) // 2 for start, end in ranges]
        scores = self._scores(encoding, chosen, event) if chosen else []
        return candidates(ranges, smooth(scores, self._smooth))

    def describe(
        self, encoding: ClipFrames, start: int, end: int, question: str | None = None
    ) -> str:
        """Return captions of evenly chosen frames of ``[start, end)``, or answers about each.

        Repeated texts are dropped. Captions are joined as sentences in order of time, answers by
        commas. A range without a frame gives "".

        Raises:
            ToolError: there is no visual question answering model.
        """
        start, end = clamp(start, end, len(encoding.frames))
        if start == end:
            return ""
        answerer = _backend_of(self._answerer)
        if answerer is None:
            raise ToolError(
                "no model of this profile can describe frames; give the role vqa or video to one"
            )
        chosen = evenly(start, end, self._frames)
        encodings = encoding.encoded(encoding.encodings, chosen, answerer.encode)
        if question is None:
            return as_sentences(answerer.caption(encodings))
        answers = answerer.answer(encodings, [question] * len(encodings))
        return ", ".join(dict.fromkeys(text for text, _ in answers if text))

    def _scores(self, encoding: ClipFrames, chosen: Sequence[int], event: str) -> list[float]:
        matcher = _backend_of(self._matcher)
        if matcher is None:
            answerer = _backend_of(self._answerer)
            if answerer is None:
                raise ToolError(
                    "no model of this profile can locate an event; give the role matcher, vqa or "
                    "video to one"
                )
            question = EVENT_QUESTION.format(event=event.strip().rstrip("."))
            encodings = encoding.encoded(encoding.encodings, chosen, answerer.encode)
            replies = answerer.answer(encodings, [question] * len(chosen))
            return [yes_chance(*reply) for reply in replies]
        if getattr(matcher, "by_likelihood", False):
            judge: Any = matcher
            chances = judge.likelihood([encoding.frames[i] for i in chosen], [event])
            return [float(chance) for chance in chances[:, 0]]
        images = np.stack(encoding.encoded(encoding.embeddings, chosen, matcher.encode_images))
        texts = matcher.encode_texts([event, *self._neutral])
        scaled = float(matcher.logit_scale) * images @ texts.T
        chances = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return [float(share) for share in chances[:, 0] / chances.sum(axis=1)]


def _backend_of(source: Backend | Callable[[], Backend] | None) -> Backend | None:
    return source() if callable(source) else source


def yes_chance(answer: str, probability: float) -> float:
    """Return the probability of yes from an answer and its probability.

    A no of probability p leaves 1 - p for yes. Any other answer is no sign of the event.
    """
    words = re.findall(r"[a-z]+", answer.lower())
    if words[:1] == ["yes"]:
        return probability
    return 1.0 - probability if words[:1] == ["no"] else 0.0
