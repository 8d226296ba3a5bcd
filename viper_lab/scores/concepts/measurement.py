"""Measure how well a tool knows concepts: single questions to one tool, with the world's truth.

Each tool's questions are a module beside this one, with the two functions of :class:`Questions`.
The questions reach the tools through a toolbox, as in programs, so the measurement includes the
effects of a soft prompt pool.

Source: CLOVA (Gao et al. 2024) measures answers end to end only; this module also measures single
tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as counted
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from viper.evaluate.intervals import Estimate, PairedTest, mean, paired
from viper.models.vision.roles import Pixels
from viper.sandbox import Ref
from viper.tools.toolbox import Toolbox
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS, reserved_still
from viper_lab.world.scene import RenderedScene, SceneObject

# Share of its outline that an object must show to be part of a question.
LEAST_VISIBLE = 0.5

# Number of scenes per seed.
SEED_STRIDE = 10_000


@dataclass(frozen=True)
class ToolAnswer:
    """One question to a tool and the score of its answer.

    Attributes:
        kind: the row of the table that it counts in, as ``loc`` or ``classify``.
        concept: the concept in question; for questions on old concepts the old one.
        sample: names the scene: questions on one scene are not independent.
        right: 1, 0, or the share of the expected objects.
    """

    kind: str
    concept: str
    sample: str
    right: float


class Questions(Protocol):
    """A module that measures one tool; the same arguments give the same questions."""

    def about(
        self, toolbox: Toolbox, concept: str, *, split: str, count: int, seed: int
    ) -> list[ToolAnswer]:
        """Return ``count`` questions about a reserved concept, in scenes of that split."""
        ...

    def about_old(
        self, toolbox: Toolbox, concepts: Sequence[str], *, split: str, count: int, seed: int
    ) -> list[ToolAnswer]:
        """Return ``count`` questions about old concepts.

        In half of them one of ``concepts`` is in the scene too, or in the same list of categories.
        """
        ...


@dataclass(frozen=True)
class ConceptGain:
    """One row: scores before and after, question by question."""

    kind: str
    before: Estimate
    after: Estimate
    gain: PairedTest


def rows(before: Sequence[ToolAnswer], after: Sequence[ToolAnswer]) -> list[ConceptGain]:
    """Return a row for each kind, with intervals over scenes.

    Raises:
        ValueError: the two are not answers to the same questions.
    """
    if [(answer.kind, answer.sample) for answer in before] != [
        (answer.kind, answer.sample) for answer in after
    ]:
        raise ValueError("before and after are not answers to the same questions")
    gains = []
    for kind in dict.fromkeys(answer.kind for answer in before):
        pairs = [pair for pair in zip(before, after, strict=True) if pair[0].kind == kind]
        olds, news = [pair[0].right for pair in pairs], [pair[1].right for pair in pairs]
        groups = [pair[0].sample for pair in pairs]
        shares = [mean(values, clusters=groups) for values in (olds, news)]
        gains.append(ConceptGain(kind, shares[0], shares[1], paired(olds, news, groups)))
    return gains


def seen(still: RenderedScene) -> NDArray[np.bool_]:
    """Return bool [N], the objects that are visible enough for a question."""
    return still.visible >= LEAST_VISIBLE


def whole(pixels: Pixels) -> Ref:
    """Return the reference of the only picture of a session."""
    height, width = pixels.shape[:2]
    return Ref("image", ("image0", width, height))


def is_reserved(thing: SceneObject) -> bool:
    """Return whether an object shows any reserved concept."""
    return bool({thing.colour, thing.shape, thing.pattern} & CONCEPTS.keys())


def old_scenes(
    concepts: Sequence[str], split: str, seed: int, first: int
) -> Iterator[tuple[str, RenderedScene, bool]]:
    """Yield scenes for old words without end: sample name, scene, whether a concept is in it.

    Args:
        first: first scene without reserved concepts in the split.
    """
    for place in counted():
        number = (seed + 1) * SEED_STRIDE - 1 - place
        if place % 2:
            yield f"{split}:{number}", render_scene(sample_scene(split, first + number)), False
        else:
            concept = concepts[place // 2 % len(concepts)]
            still = reserved_still(split, number, concept)
            yield f"{split}:{concept}:{number}", still.rendered, True
