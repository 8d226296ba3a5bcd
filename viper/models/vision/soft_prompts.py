"""Soft prompts as tools see them: where they come from, how several become one, and what a
backend that can be taught by them offers beside its role.

Source: CLOVA (Gao et al. 2024), sec. 3.4.1, "Prompt ensemble", and its supplement, sec. 8.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from viper.models.vision.roles import Detection, Floats, Segment

NEAREST: Mapping[str, int] = MappingProxyType({"vqa": 20, "seg": 10})
"""How many prompts are mixed at most, by tool; of other tools all are (supplement, sec. 8)."""

LEAST_ALIKE: Mapping[str, float] = MappingProxyType({"vqa": 0.1})
"""Prompts of instances that are less like an input are left out, by tool; 0 of other tools.

Where a tool has no concepts, a prompt must not reach inputs that are like no instance at all."""

WITHOUT_CONCEPT = frozenset({"vqa"})
"""Tools whose prompts stand under no concept: all of them are candidates for every input."""


@dataclass(frozen=True, eq=False)
class SoftPrompt:
    """What was learned from one training instance.

    Attributes:
        feature: float32 ``[D]``, the instance as the tool's own encoder sees it.
        vectors: float32 ``[N, W]``; prompts of several layers stand one after another.
    """

    feature: Floats
    vectors: Floats


@dataclass(frozen=True, eq=False)
class LearnedPrompt:
    """One soft prompt as a backend gets it.

    Attributes:
        concept: as the pool spells it, in small letters; "" for the tools of ``WITHOUT_CONCEPT``.
        vectors: float32 ``[N, W]``.
    """

    concept: str
    vectors: Floats

    @property
    def digest(self) -> str:
        """Tells it from every other one: for keys of caches."""
        found = hashlib.blake2b(f"{self.concept}\n{self.vectors.shape}".encode(), digest_size=16)
        found.update(np.ascontiguousarray(self.vectors).data)
        return found.hexdigest()


class SoftPromptSource(Protocol):
    """Where a tool's learned prompts come from; safe to ask from several threads."""

    def concepts(self, tool: str, model_id: str) -> Collection[str]:
        """What the tool was taught for that very model; "" for those of ``WITHOUT_CONCEPT``."""
        ...

    def candidates(self, tool: str, concept: str | None, model_id: str) -> Sequence[SoftPrompt]:
        """Every prompt of the concept for that very model, the oldest first; none: not learned."""
        ...

    def ensemble(
        self, tool: str, concept: str | None, feature: Floats, *, model_id: str
    ) -> Floats | None:
        """One prompt ``[N, W]`` for an input, mixed of ``NEAREST`` at most; see :func:`mixed`.

        Args:
            concept: None for the tools of ``WITHOUT_CONCEPT``.
            feature: float32 ``[D]`` of the input, made as the stored ones were.
            model_id: prompts that were trained for another model are not used.
        """
        ...

    def version(self, tool: str, concept: str | None) -> int:
        """A number that is another one whenever the concept's prompts are: for keys of caches."""
        ...


class NoSoftPrompts:
    """Nothing was learned: every tool is as it came."""

    def concepts(self, tool: str, model_id: str) -> Collection[str]:
        return ()

    def candidates(self, tool: str, concept: str | None, model_id: str) -> Sequence[SoftPrompt]:
        return ()

    def ensemble(
        self, tool: str, concept: str | None, feature: Floats, *, model_id: str
    ) -> Floats | None:
        return None

    def version(self, tool: str, concept: str | None) -> int:
        return 0


def named_in(text: str, concepts: Collection[str]) -> tuple[str, ...]:
    """The concepts that a text names, in its order; case and a plural's s do not count.

    Of concepts that overlap the longer one is meant: ``traffic light`` is no ``light``.
    """
    if not concepts:
        return ()
    words = " ".join(text.casefold().split())
    found: list[tuple[int, str]] = []
    for concept in sorted(concepts, key=lambda each: (-len(each), each)):
        if not concept:
            continue
        place = re.search(rf"(?<!\w){re.escape(concept)}(?:e?s)?(?!\w)", words)
        if place is not None:
            found.append((place.start(), concept))
            blank = "\0" * (place.end() - place.start())
            words = words[: place.start()] + blank + words[place.end() :]
    return tuple(concept for _, concept in sorted(found))


def mixed(
    prompts: Sequence[SoftPrompt],
    feature: Floats,
    nearest: int | None = None,
    units: Floats | None = None,
    least: float = 0.0,
) -> Floats | None:
    """The mean of the prompts' vectors, weighted by how like the input their instances are.

    ``p' = sum(w_i p_i) / sum(w_i)``, where ``w_i`` is the cosine similarity of the features.
    A prompt whose similarity is not above 0 is left out: a negative weight would push the tool
    away from what was learned, and weights of both signs may sum to nothing. None, the tool as it
    came, where no prompt is left, or all that are left are zero (a stored case that the tool got
    right by itself has a zero prompt).

    Source: CLOVA, sec. 3.4.1. Differs: the paper does not say what becomes of weights below 0.

    Args:
        feature: float32 ``[D]``.
        nearest: only so many, those most alike.
        units: of :func:`unit_features`, where the prompts' are at hand.
        least: similarities up to it are left out; see :data:`LEAST_ALIKE`.

    Returns:
        float32 ``[N, W]``.

    Raises:
        ValueError: the feature has another shape than those of the prompts.
    """
    if not prompts:
        return None
    units = unit_features(prompts) if units is None else units
    if feature.shape != units.shape[1:]:
        raise ValueError(f"a feature of shape {feature.shape}; the prompts' are {units.shape[1:]}")
    weights = units @ _unit(feature)  # (P,)
    order = np.argsort(-weights, kind="stable")[: nearest or len(prompts)]
    total, weight = np.zeros(prompts[0].vectors.shape), 0.0
    for place in order:
        if weights[place] > max(least, 0.0):
            total += float(weights[place]) * prompts[place].vectors.astype(np.float64)
            weight += float(weights[place])
    if not total.any():
        return None
    mean: Floats = (total / weight).astype(np.float32)
    return mean


def unit_features(prompts: Sequence[SoftPrompt]) -> Floats:
    """The features ``[P, D]``, each of length 1; a feature that is zero stays so."""
    return np.stack([_unit(prompt.feature) for prompt in prompts])


def _unit(feature: Floats) -> Floats:
    length = float(np.linalg.norm(feature.astype(np.float64)))
    unit: Floats = (feature / length if length > 0 else np.zeros_like(feature)).astype(np.float32)
    return unit


@runtime_checkable
class AdaptableDetector(Protocol):
    """LOC.

    A backend that offers none of these methods beside its role's is used as it came, whatever the
    pool holds: prompts are kept for the very model that they were trained for. With prompts, a
    method answers as the model would if it had been taught them; without, nobody calls it.
    """

    def feature(self, encoding: Any) -> Floats:
        """The picture as prompts are found again by, float32 [D]."""
        ...

    def detect_adapted(
        self, encoding: Any, phrase: str, prompts: Sequence[LearnedPrompt]
    ) -> list[Detection]:
        """As ``detect`` for one phrase, which names the concepts of all the prompts."""
        ...

    def surest(self, encoding: Any, phrase: str, prompts: Sequence[LearnedPrompt]) -> float:
        """Score of the best box that ``detect_adapted`` would find; 0 where it would find none."""
        ...


@runtime_checkable
class AdaptableSegmenter(Protocol):
    """SEG."""

    def feature(self, encoding: Any) -> Floats:
        """The picture as prompts are found again by, float32 [D]."""
        ...

    def segments_adapted(self, encoding: Any, prompts: Sequence[LearnedPrompt]) -> list[Segment]:
        """All segments as ``segments`` gives them, those of the prompts' concepts among them.

        A segment of a concept has its name as label; masks do not overlap.
        """
        ...
