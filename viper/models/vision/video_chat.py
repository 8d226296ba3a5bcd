"""Events in a clip by a chat vision-language model that sees some of its frames."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from viper.models.options import check_at_least
from viper.models.vision.roles import EventWindow, Pixels
from viper.models.vision.video_windows import candidates, clamp, evenly, overlapping
from viper.models.vision.vlm import ANSWER_TOKENS, ChatRequest, RoleOnVLM, VisionLanguageModel

FRAMES_INTRODUCTION = "These pictures are frames of a video, in the order of time."
DESCRIPTION_REQUEST = "Describe what happens in it, in the order of time."
INSTRUCTION = "Answer in one or two short sentences."
EVENT_QUESTION = "Does this happen in it: {event}? Answer yes or no."

# Each frame costs hundreds of tokens; 8 still show the order of events in one window. 64 kept
# frames give 8 windows of a long clip frames of their own.
FRAMES_SHOWN = 8
FRAMES_KEPT = 64

# Number of windows side by side in a clip if no length is given; with those between them, an event
# costs 7 requests.
WINDOWS_A_CLIP = 4


@dataclass(frozen=True)
class KeptFrames:
    """Encoding of a clip of ``length`` frames: uint8 [K, H, W, 3] and the K frame numbers."""

    length: int
    indices: tuple[int, ...]
    frames: Pixels


class ChatVideo(RoleOnVLM):
    """A ``VideoModel`` on any chat vision-language model.

    Args:
        vlm: the model; may be shared with the visual question answering role.
        frames: number of frames that the model sees at once.
        kept_frames: number of evenly chosen frames of a clip to select from.
        window: length in frames of the windows searched for an event, each overlapping half of
            the previous one; None for a quarter of the clip.
        instruction: follows a question about a segment; "" for the question alone.
        max_tokens: maximum length of a description or an answer; a longer one is an error.
        batch_size: maximum number of questions in one forward pass, each with ``frames`` pictures.

    Raises:
        ProfileError: a count below 1.
    """

    def __init__(
        self,
        vlm: VisionLanguageModel,
        *,
        frames: int = FRAMES_SHOWN,
        kept_frames: int = FRAMES_KEPT,
        window: int | None = None,
        instruction: str = INSTRUCTION,
        max_tokens: int = ANSWER_TOKENS,
        batch_size: int = 2,
    ) -> None:
        check_at_least(1, frames=frames, kept_frames=kept_frames, max_tokens=max_tokens)
        if window is not None:
            check_at_least(1, window=window)
        super().__init__(vlm, batch_size)
        self._frames = frames
        self._kept_frames = kept_frames
        self._window = window
        self._instruction, self._max_tokens = instruction, max_tokens

    def encode(self, frames: Pixels) -> KeptFrames:
        """Return copies of evenly chosen frames: all of them up to ``kept_frames``."""
        indices = evenly(0, len(frames), self._kept_frames)
        return KeptFrames(len(frames), tuple(indices), np.asarray(frames)[indices])

    def locate(self, encoding: KeptFrames, event: str) -> list[EventWindow]:
        """Return candidate windows of the described event, best first, down to score .01.

        A window's score is the probability that the model answers yes rather than no to the
        question if the event happens in the window's frames.
        """
        length = self._window or max(1, math.ceil(encoding.length / WINDOWS_A_CLIP))
        ranges = overlapping(encoding.length, length)
        question = EVENT_QUESTION.format(event=event.strip().rstrip("."))
        requests = [self._request(encoding, start, end, question) for start, end in ranges]
        return candidates(ranges, self._vlm.probability_of_yes(requests))

    def describe(
        self, encoding: KeptFrames, start: int, end: int, question: str | None = None
    ) -> str:
        """Return the model's description of frames ``[start, end)``, or its answer to a question
        about them.

        A range without a frame gives "".
        """
        start, end = clamp(start, end, encoding.length)
        if start == end:
            return ""
        instruction = DESCRIPTION_REQUEST
        if question is not None:
            instruction = f"{question.strip()}\n{self._instruction}".strip()
        request = self._request(encoding, start, end, instruction)
        text, _ = self._vlm.ask([request], self._max_tokens)[0]
        return " ".join(text.split())

    def _request(self, encoding: KeptFrames, start: int, end: int, instruction: str) -> ChatRequest:
        """Ask about kept frames in the range, else about the nearest to its middle."""
        indices, middle = encoding.indices, (start + end - 1) / 2
        inside = [place for place, frame in enumerate(indices) if start <= frame < end]
        chosen = [inside[i] for i in evenly(0, len(inside), self._frames)]
        if not inside:
            chosen = [min(range(len(indices)), key=lambda place: abs(indices[place] - middle))]
        frames = [encoding.frames[place] for place in chosen]
        return ChatRequest(frames, f"{FRAMES_INTRODUCTION}\n{instruction}")
