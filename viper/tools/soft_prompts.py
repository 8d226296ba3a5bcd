"""Soft prompts as tools see them: where they come from, and how several become one.

Source: CLOVA (Gao et al. 2024), sec. 3.4.1, "Prompt ensemble", and its supplement, sec. 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np

from viper.tools.roles import Floats

NEAREST: Mapping[str, int] = MappingProxyType({"vqa": 20, "seg": 10})
"""How many prompts are mixed at most, by tool; of other tools all are (supplement, sec. 8)."""

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


class SoftPromptSource(Protocol):
    """Where a tool's learned prompts come from; safe to ask from several threads."""

    def candidates(self, tool: str, concept: str | None, model_id: str) -> Sequence[SoftPrompt]:
        """Every prompt of the concept for that very model, the oldest first; none: not learned."""
        ...

    def ensemble(
        self,
        tool: str,
        concept: str | None,
        feature: Floats,
        nearest: int | None = None,
        *,
        model_id: str,
    ) -> Floats | None:
        """One prompt ``[N, W]`` for an input; see :func:`mixed`.

        Args:
            concept: None for the tools of ``WITHOUT_CONCEPT``.
            feature: float32 ``[D]`` of the input, made as the stored ones were.
            nearest: mixes so many at most; None takes the tool's own number, see ``NEAREST``.
            model_id: prompts that were trained for another model are not used.
        """
        ...

    def version(self, tool: str, concept: str | None) -> int:
        """A number that is another one whenever the concept's prompts are: for keys of caches."""
        ...


class NoSoftPrompts:
    """Nothing was learned: every tool is as it came."""

    def candidates(self, tool: str, concept: str | None, model_id: str) -> Sequence[SoftPrompt]:
        return ()

    def ensemble(
        self,
        tool: str,
        concept: str | None,
        feature: Floats,
        nearest: int | None = None,
        *,
        model_id: str,
    ) -> Floats | None:
        return None

    def version(self, tool: str, concept: str | None) -> int:
        return 0


def mixed(
    prompts: Sequence[SoftPrompt], feature: Floats, nearest: int | None = None
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

    Returns:
        float32 ``[N, W]``.

    Raises:
        ValueError: the feature has another shape than those of the prompts.
    """
    if not prompts:
        return None
    features = np.stack([prompt.feature for prompt in prompts]).astype(np.float64)  # (P, D)
    asked = np.asarray(feature, np.float64)
    if asked.shape != features.shape[1:]:
        raise ValueError(f"a feature of shape {asked.shape}; the prompts' are {features.shape[1:]}")
    lengths = np.linalg.norm(features, axis=1) * np.linalg.norm(asked)
    weights = np.divide(features @ asked, lengths, out=np.zeros(len(prompts)), where=lengths > 0)
    order = np.argsort(-weights, kind="stable")[: nearest or len(prompts)]
    kept = [place for place in order if weights[place] > 0]
    if not kept:
        return None
    vectors = np.stack([prompts[place].vectors for place in kept]).astype(np.float64)  # (K, N, W)
    mean: Floats = np.average(vectors, axis=0, weights=weights[kept]).astype(np.float32)
    return mean if mean.any() else None
