"""Soft prompts of tools: their source, the mixture of several, and the methods of backends that
take them.

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

from viper.errors import UsageError
from viper.models.vision.roles import Detection, Floats, Segment

# Maximum number of prompts in a mixture, by tool; others mix all (supplement, sec. 8.1.3, 8.3.3).
NEAREST: Mapping[str, int] = MappingProxyType({"vqa": 20, "seg": 10})

# Least similarity of a prompt's instance to the input, by tool; 0 for other tools. If a tool has no
# concepts, a prompt must not reach inputs that are unlike every instance. The features of VQA are
# 1,024 random waves, by which unlike cases have similarities of 0 with a deviation of .02.
LEAST_ALIKE: Mapping[str, float] = MappingProxyType({"vqa": 0.1})

# Vectors of a prompt of a decoder (supplement, sec. 8.2 and 8.3), by which it is told from a probe.
DECODER_PROMPTS = 100

# Tools whose prompts have no concept: all prompts are candidates for every input.
WITHOUT_CONCEPT = frozenset({"vqa"})


@dataclass(frozen=True, eq=False)
class SoftPrompt:
    """Soft prompt learned from one training instance.

    Attributes:
        feature: float32 ``[D]``, the instance encoded by the tool's own encoder.
        vectors: float32 ``[N, W]``; prompts of several layers follow one another.
    """

    feature: Floats
    vectors: Floats


@dataclass(frozen=True, eq=False)
class LearnedPrompt:
    """Soft prompt in the form that a backend takes.

    Attributes:
        concept: in the pool's spelling, lower case; "" for the tools of ``WITHOUT_CONCEPT``.
        vectors: float32 ``[N, W]``.
    """

    concept: str
    vectors: Floats

    @property
    def digest(self) -> str:
        """Return a hash that identifies the prompt, for keys of caches."""
        digest = hashlib.blake2b(f"{self.concept}\n{self.vectors.shape}".encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.vectors).data)
        return digest.hexdigest()


def are_of_decoder(prompts: Sequence[LearnedPrompt]) -> bool:
    """Return whether prompts are vectors beside a decoder's inputs instead of probes.

    Raises:
        UsageError: there are prompts of both forms.
    """
    forms = {len(prompt.vectors) == DECODER_PROMPTS for prompt in prompts}
    if len(forms) > 1:
        names = ", ".join(prompt.concept for prompt in prompts)
        raise UsageError(
            f"{names}: learned as prompts of a decoder and as probes, which cannot be mixed; "
            "remove one kind with: viper learn prompts remove"
        )
    return True in forms


class SoftPromptSource(Protocol):
    """Source of a tool's learned prompts, which has none by default; thread-safe."""

    def concepts(self, tool: str, model_id: str) -> Collection[str]:
        """Return the concepts learned for this very model; "" for the tools of
        ``WITHOUT_CONCEPT``.
        """
        return ()

    def candidates(self, tool: str, concept: str | None, model_id: str) -> Sequence[SoftPrompt]:
        """Return every prompt of the concept for this very model, oldest first; empty if there are
        none.
        """
        return ()

    def ensemble(
        self, tool: str, concept: str | None, feature: Floats, *, model_id: str
    ) -> Floats | None:
        """Return one prompt ``[N, W]`` for an input, a mixture of up to ``NEAREST``; see
        :func:`mix`.

        Args:
            concept: None for the tools of ``WITHOUT_CONCEPT``.
            feature: float32 ``[D]`` of the input, computed like the stored ones.
            model_id: prompts that were trained for another model are not used.
        """
        return None

    def version(self, tool: str, concept: str | None) -> int:
        """Return a number that changes whenever the concept's prompts change, for keys of
        caches.
        """
        return 0


class NoSoftPrompts(SoftPromptSource):
    """Source without soft prompts: every tool works unchanged."""


def named(*concepts: str) -> str:
    """Return a pattern, with one group, of any of these names as a separate word or its plural."""
    return rf"(?<!\w)({'|'.join(map(re.escape, concepts))})(?:e?s)?(?!\w)"


def find_named(text: str, concepts: Collection[str]) -> tuple[str, ...]:
    """Return the concepts that a text names, in its order; case and a plural's s do not count.

    If concepts overlap, the longer one counts: ``traffic light`` is no ``light``.
    """
    if not concepts:
        return ()
    words = " ".join(text.casefold().split())
    matches: list[tuple[int, str]] = []
    for concept in sorted(concepts, key=lambda each: (-len(each), each)):
        if not concept:
            continue
        place = re.search(named(concept), words)
        if place is not None:
            matches.append((place.start(), concept))
            blank = "\0" * (place.end() - place.start())
            words = words[: place.start()] + blank + words[place.end() :]
    return tuple(concept for _, concept in sorted(matches))


def mix(
    prompts: Sequence[SoftPrompt],
    feature: Floats,
    nearest: int | None = None,
    units: Floats | None = None,
    least: float = 0.0,
) -> Floats | None:
    """Return the mean of the prompts' vectors, weighted by the similarity of their instances to the
    input.

    ``p' = sum(w_i p_i) / sum(w_i)``, where ``w_i`` is the cosine similarity of the features.
    Prompts with a similarity of 0 or less are left out: a negative weight would push the tool away
    from the learned concept, and weights of both signs may sum to nothing. The result is None, for
    the original tool, if no prompt is left or all that are left are zero. A stored case that the
    tool got right by itself has a zero prompt.

    Source: CLOVA, sec. 3.4.1. Differs: the paper does not say how to treat weights below 0.

    Args:
        feature: float32 ``[D]``.
        nearest: maximum number of prompts, the most similar ones.
        units: of :func:`unit_features`, if the prompts' are already computed.
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
    return (total / weight).astype(np.float32) if total.any() else None


def unit_features(prompts: Sequence[SoftPrompt]) -> Floats:
    """Return the features ``[P, D]``, each of length 1; a zero feature stays zero."""
    return np.stack([_unit(prompt.feature) for prompt in prompts])


def _unit(feature: Floats) -> Floats:
    length = float(np.linalg.norm(feature.astype(np.float64)))
    return (feature / length if length > 0 else np.zeros_like(feature)).astype(np.float32)


@runtime_checkable
class AdaptableDetector(Protocol):
    """Detector that takes soft prompts (LOC).

    A backend without these methods is used unchanged, because prompts belong to the very model that
    they were trained for. The methods are called only with prompts.
    """

    def feature(self, encoding: Any) -> Floats:
        """Return the feature that selects prompts for a picture, float32 [D]."""

    def detect_adapted(
        self, encoding: Any, phrase: str, prompts: Sequence[LearnedPrompt]
    ) -> list[Detection]:
        """Detect one phrase, which names the concepts of all the prompts."""

    def surest(self, encoding: Any, phrase: str, prompts: Sequence[LearnedPrompt]) -> float:
        """Return the score of the best box of ``detect_adapted``, or 0 without a box."""


@runtime_checkable
class AdaptableSegmenter(Protocol):
    """Segmenter that takes soft prompts (SEG)."""

    def feature(self, encoding: Any) -> Floats:
        """Return the feature that selects prompts for a picture, float32 [D]."""

    def segments_adapted(self, encoding: Any, prompts: Sequence[LearnedPrompt]) -> list[Segment]:
        """Return all segments, those of the prompts' concepts included.

        A segment of a concept has its name as label; masks do not overlap.
        """
