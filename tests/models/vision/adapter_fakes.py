"""Fake models that can be taught: a prompt's first number says what changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.models.vision.roles import Detection, Floats, Mask, Pixels, Segment
from viper.models.vision.soft_prompts import LearnedPrompt, SoftPrompt, mix
from viper.testing.fakes import (
    FakeAnswerer,
    FakeDetector,
    FakeInpainter,
    FakeMatcher,
    FakeSegmenter,
)


class AdaptedDetector(FakeDetector):
    """Finds one box more for a taught phrase; the prompt's first number is its score."""

    def feature(self, encoding: Any) -> Floats:
        return np.array([1.0, 0.0], np.float32)

    def detect_adapted(
        self, encoding: Any, phrase: str, prompts: Sequence[LearnedPrompt]
    ) -> list[Detection]:
        more = [Detection((30.0, 30.0, 40.0, 40.0), float(one.vectors[0, 0])) for one in prompts]
        return sorted([*self.detect(encoding, [phrase])[0], *more], key=lambda one: -one.score)

    def surest(self, encoding: Any, phrase: str, prompts: Sequence[LearnedPrompt]) -> float:
        found = self.detect_adapted(encoding, phrase, prompts)
        return max((one.score for one in found), default=0.0)


class AdaptedMatcher(FakeMatcher):
    """A taught concept is green, and every picture as green as the prompt's first number."""

    def encode_image_adapted(self, pixels: Pixels, prompts: Sequence[LearnedPrompt]) -> Floats:
        return np.array([0.0, float(prompts[0].vectors[0, 0]), 0.0], np.float32)

    def encode_text_adapted(self, text: str, prompts: Sequence[LearnedPrompt]) -> Floats:
        return np.array([0.0, 1.0, 0.0], np.float32)


class AdaptedAnswerer(FakeAnswerer):
    """Questions about colours are one direction, all others another; answers ``taught``."""

    def feature(self, encoding: Any, question: str) -> Floats:
        about = float("color" in question)
        return np.array([about, 1 - about], np.float32)

    def answer_adapted(self, encoding: Any, question: str, prompt: LearnedPrompt) -> str:
        return "taught"


class AdaptedSegmenter(FakeSegmenter):
    """A segment more for each taught concept."""

    def feature(self, encoding: Any) -> Floats:
        return np.array([1.0, 0.0], np.float32)

    def segments_adapted(self, encoding: Any, prompts: Sequence[LearnedPrompt]) -> list[Segment]:
        mask = np.zeros(encoding, np.bool_)
        mask[:5, :5] = True
        more = [Segment(mask, one.concept, 0.9) for one in prompts]
        return [*self.segments(encoding, None), *more]


class AdaptedInpainter(FakeInpainter):
    """Paints taught concepts white."""

    def inpaint_adapted(
        self, pixels: Pixels, mask: Mask, prompt: str, seed: int, prompts: Sequence[LearnedPrompt]
    ) -> Pixels:
        painting = pixels.copy()
        painting[mask] = 255
        return painting


class PromptsInMemory:
    """A source of prompts in memory: tool and concept to prompts, for one model each."""

    def __init__(self, prompts: dict[tuple[str, str], list[SoftPrompt]]) -> None:
        self.prompts = prompts

    def concepts(self, tool: str, model_id: str) -> list[str]:
        return [concept for name, concept in self.prompts if name == tool]

    def candidates(self, tool: str, concept: str | None, model_id: str) -> list[SoftPrompt]:
        return self.prompts.get((tool, concept or ""), [])

    def ensemble(
        self, tool: str, concept: str | None, feature: Floats, *, model_id: str
    ) -> Floats | None:
        return mix(self.candidates(tool, concept, model_id), feature)

    def version(self, tool: str, concept: str | None) -> int:
        return 1


def prompt(value: float, feature: Sequence[float] = (1.0, 0.0)) -> SoftPrompt:
    """One whose vectors hold the value."""
    return SoftPrompt(np.array(feature, np.float32), np.full((2, 3), value, np.float32))
