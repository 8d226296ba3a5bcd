"""What the backend of a role offers beside it where the tool can be taught by soft prompts.

A backend that offers none of this is used as it came, whatever the pool holds: prompts are kept
for the very model that they were trained for. With prompts, a method answers as the model would if
it had been taught them; without, nobody calls it.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from viper.models.vision.roles import Detection, Floats, Mask, Pixels, Segment
from viper.models.vision.soft_prompts import Learned


@runtime_checkable
class TeachableDetector(Protocol):
    """LOC."""

    def feature(self, encoding: Any) -> Floats:
        """The picture as prompts are found again by, float32 [D]."""
        ...

    def detect_taught(
        self, encoding: Any, phrase: str, prompts: Sequence[Learned]
    ) -> list[Detection]:
        """As ``detect`` for one phrase, which names the concepts of all the prompts."""
        ...

    def surest(self, encoding: Any, phrase: str, prompts: Sequence[Learned]) -> float:
        """Score of the best box that ``detect_taught`` would find; 0 where it would find none."""
        ...


@runtime_checkable
class TeachableMatcher(Protocol):
    """SELECT and CLASSIFY; the feature of a region is its embedding without prompts."""

    def encode_image_taught(self, pixels: Pixels, prompts: Sequence[Learned]) -> Floats:
        """L2-normalised embedding [D] of a picture that is compared with the prompts' concepts."""
        ...

    def encode_text_taught(self, text: str, prompts: Sequence[Learned]) -> Floats:
        """L2-normalised embedding [D] of a text that names the concepts of all the prompts."""
        ...


@runtime_checkable
class TeachableAnswerer(Protocol):
    """VQA: no concepts; the prompt is a mixture of those of the cases most alike."""

    def feature(self, encoding: Any, question: str) -> Floats:
        """A picture and a question as prompts are found again by, float32 [D]."""
        ...

    def answer_taught(self, encoding: Any, question: str, prompt: Learned) -> str:
        """The answer to a question about a picture."""
        ...


@runtime_checkable
class TeachableSegmenter(Protocol):
    """SEG."""

    def feature(self, encoding: Any) -> Floats:
        """The picture as prompts are found again by, float32 [D]."""
        ...

    def segments_taught(self, encoding: Any, prompts: Sequence[Learned]) -> list[Segment]:
        """All segments as ``segments`` gives them, those of the prompts' concepts among them.

        A segment of a concept has its name as label; masks do not overlap.
        """
        ...


@runtime_checkable
class TeachableInpainter(Protocol):
    """REPLACE."""

    def inpaint_taught(
        self, pixels: Pixels, mask: Mask, prompt: str, seed: int, prompts: Sequence[Learned]
    ) -> Pixels:
        """As ``inpaint``; the prompt names the concepts of all the soft prompts."""
        ...
