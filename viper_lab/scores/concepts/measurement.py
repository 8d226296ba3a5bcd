"""How well a tool knows concepts: single questions to a single tool, with the truth of the world.

Each tool's questions are a module beside this one, with the two functions of :class:`Questions`.
They are put to the tools through a toolbox, as programs put them, so that what a soft prompt pool
does to answers is part of what is measured.

Source: CLOVA (Gao et al. 2024) measures answers end to end only; tools alone are measured here too.
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

LEAST_VISIBLE = 0.5
"""Share of its outline that an object must show to be asked about."""

SEED_STRIDE = 10_000
"""Scenes of each seed, where a seed has no fewer."""


@dataclass(frozen=True)
class ToolAnswer:
    """One question to a tool and whether its answer was right.

    Attributes:
        kind: the row of the table that it counts in, as ``loc`` or ``classify``.
        concept: what it is about; for questions on old concepts the old one.
        sample: names the scene: questions on one scene are not independent.
        right: 1, 0, or a share of what was to be found.
    """

    kind: str
    concept: str
    sample: str
    right: float


class Questions(Protocol):
    """A module that measures one tool; the same arguments ask the same questions."""

    def about(
        self, toolbox: Toolbox, concept: str, *, split: str, count: int, seed: int
    ) -> list[ToolAnswer]:
        """So many questions about a reserved concept, in scenes of that split."""
        ...

    def about_old(
        self, toolbox: Toolbox, concepts: Sequence[str], *, split: str, count: int, seed: int
    ) -> list[ToolAnswer]:
        """So many questions about old concepts.

        Half of them in scenes where one of ``concepts`` stands too, or with one of them in the
        same list of categories.
        """
        ...


@dataclass(frozen=True)
class ConceptGain:
    """One row: what was asked before and after, question by question."""

    kind: str
    before: Estimate
    after: Estimate
    gain: PairedTest


def rows(before: Sequence[ToolAnswer], after: Sequence[ToolAnswer]) -> list[ConceptGain]:
    """A row for each kind, with intervals over scenes.

    Raises:
        ValueError: the two are not answers to the same questions.
    """
    if [(one.kind, one.sample) for one in before] != [(one.kind, one.sample) for one in after]:
        raise ValueError("before and after are not answers to the same questions")
    found = []
    for kind in dict.fromkeys(one.kind for one in before):
        pairs = [pair for pair in zip(before, after, strict=True) if pair[0].kind == kind]
        olds, news = [pair[0].right for pair in pairs], [pair[1].right for pair in pairs]
        groups = [pair[0].sample for pair in pairs]
        shares = [mean(values, clusters=groups) for values in (olds, news)]
        found.append(ConceptGain(kind, shares[0], shares[1], paired(olds, news, groups)))
    return found


def seen(still: RenderedScene) -> NDArray[np.bool_]:
    """Return bool [N], the objects that show enough of themselves to be asked about."""
    return still.visible >= LEAST_VISIBLE


def whole(pixels: Pixels) -> Ref:
    """Return the reference of the only picture of a session."""
    height, width = pixels.shape[:2]
    return Ref("image", ("image0", width, height))


def is_reserved(thing: SceneObject) -> bool:
    """Tell whether an object shows any reserved concept."""
    return bool({thing.colour, thing.shape, thing.pattern} & CONCEPTS.keys())


def old_scenes(
    concepts: Sequence[str], split: str, seed: int, first: int
) -> Iterator[tuple[str, RenderedScene, bool]]:
    """Yield scenes to ask about old words without an end, and whether a concept stands there too.

    Args:
        first: where the scenes without reserved concepts begin in the split.
    """
    for place in counted():
        number = (seed + 1) * SEED_STRIDE - 1 - place
        if place % 2:
            yield f"{split}:{number}", render_scene(sample_scene(split, first + number)), False
        else:
            concept = concepts[place // 2 % len(concepts)]
            still = reserved_still(split, number, concept)
            yield f"{split}:{concept}:{number}", still.rendered, True
