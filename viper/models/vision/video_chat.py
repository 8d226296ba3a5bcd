"""Events in a clip by a chat vision-language model that is shown some of its frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viper.models.vision.chat_vlm import ChatRequest, ChatVLM
from viper.models.vision.roles import EventWindow, Pixels
from viper.models.vision.video_windows import check_at_least, clamped, evenly, merged, overlapping

FRAMES_INTRODUCTION = "These pictures are frames of a video, in the order of time."
DESCRIPTION_REQUEST = "Describe what happens in it, in the order of time."
INSTRUCTION = "Answer in one or two short sentences."
EVENT_QUESTION = "Does this happen in it: {event}? Answer yes or no."

DESCRIPTION_TOKENS = 128
FRAMES_SHOWN = 8
FRAMES_KEPT = 64
WINDOWS_A_CLIP = 4
"""How many windows side by side make up a clip where no length is given."""


@dataclass(frozen=True)
class KeptFrames:
    """What is kept of a clip of ``length`` frames: uint8 [K, H, W, 3] and the K frame numbers."""

    length: int
    indices: tuple[int, ...]
    frames: Pixels


class ChatVideo:
    """A ``VideoModel`` on any ``ChatVLM``.

    Args:
        vlm: the model; may be shared with the visual question answering role.
        frames: how many frames the model is shown at once.
        kept_frames: how many evenly chosen frames of a clip are kept to choose from.
        window: length in frames of the windows that are searched for an event, each half
            over the one before; None for a quarter of the clip.
        instruction: said after a question about a segment; "" for the bare question.
        batch_size: questions in one forward pass at most, each with ``frames`` pictures.

    Raises:
        ProfileError: a count below 1.
    """

    def __init__(
        self,
        vlm: ChatVLM,
        *,
        frames: int = FRAMES_SHOWN,
        kept_frames: int = FRAMES_KEPT,
        window: int | None = None,
        instruction: str = INSTRUCTION,
        batch_size: int = 2,
    ) -> None:
        check_at_least(1, frames=frames, kept_frames=kept_frames)
        if window is not None:
            check_at_least(1, window=window)
        self.model_id = vlm.model_id
        self._vlm = vlm.in_batches_of(batch_size)
        self._frames = frames
        self._kept_frames = kept_frames
        self._window = window
        self._instruction = instruction

    @property
    def memory_bytes(self) -> int:
        """Bytes of the model's parameters and buffers."""
        return self._vlm.memory_bytes

    def encode(self, frames: Pixels) -> KeptFrames:
        """Copies of evenly chosen frames: all of them up to ``kept_frames``."""
        kept = evenly(0, len(frames), self._kept_frames)
        return KeptFrames(len(frames), tuple(kept), np.asarray(frames)[kept])

    def locate(self, encoding: KeptFrames, event: str) -> list[EventWindow]:
        """Candidate windows of the described event, best first, down to score .01.

        A window's score is the probability that the model begins its answer with yes
        rather than no when asked whether the event happens in the window's frames.
        """
        length = self._window or max(1, math.ceil(encoding.length / WINDOWS_A_CLIP))
        ranges = overlapping(encoding.length, length)
        question = EVENT_QUESTION.format(event=event.strip().rstrip("."))
        requests = [self._request(encoding, start, end, question) for start, end in ranges]
        scores = self._vlm.probability_of_yes(requests)
        return merged(
            [EventWindow(*where, score) for where, score in zip(ranges, scores, strict=True)]
        )

    def describe(
        self, encoding: KeptFrames, start: int, end: int, question: str | None = None
    ) -> str:
        """The model's words on frames ``[start, end)``, or its answer to a question about them.

        A range without a frame gives "".
        """
        start, end = clamped(start, end, encoding.length)
        if start == end:
            return ""
        asked = DESCRIPTION_REQUEST
        if question is not None:
            asked = f"{question.strip()}\n{self._instruction}".strip()
        request = self._request(encoding, start, end, asked)
        text, _ = self._vlm.ask([request], DESCRIPTION_TOKENS)[0]
        return " ".join(text.split())

    def _request(self, encoding: KeptFrames, start: int, end: int, asked: str) -> ChatRequest:
        shown = [encoding.frames[i] for i in self._shown(encoding.indices, start, end)]
        return ChatRequest(shown, f"{FRAMES_INTRODUCTION}\n{asked}")

    def _shown(self, indices: Sequence[int], start: int, end: int) -> list[int]:
        """Places of the kept frames to show: those of the range, else the nearest to its middle."""
        inside = [place for place, frame in enumerate(indices) if start <= frame < end]
        if not inside:
            middle = (start + end - 1) / 2
            return [min(range(len(indices)), key=lambda place: abs(indices[place] - middle))]
        return [inside[i] for i in evenly(0, len(inside), self._frames)]
