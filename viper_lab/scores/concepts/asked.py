"""How well a tool knows concepts: single questions to a single tool, with the truth of the world.

Each tool's questions are a module beside this one, with the two functions of :class:`Questions`.
They are put to the tools through a hub, as programs put them, so that what a pool of soft prompts
does to answers is part of what is measured.

Source: CLOVA (Gao et al. 2024) measures answers end to end only; tools alone are measured here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from viper.evaluate.intervals import Estimate, Paired, mean, paired
from viper.tools.hub import ToolHub


@dataclass(frozen=True)
class Asked:
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
        self, hub: ToolHub, concept: str, *, split: str, count: int, seed: int
    ) -> list[Asked]:
        """So many questions about a reserved concept, in scenes of that split."""
        ...

    def about_old(
        self, hub: ToolHub, concepts: Sequence[str], *, split: str, count: int, seed: int
    ) -> list[Asked]:
        """So many questions about old concepts.

        Half of them in scenes where one of ``concepts`` stands too, or with one of them in the
        same list of categories.
        """
        ...


@dataclass(frozen=True)
class Learnt:
    """One row: what was asked before and after, question by question."""

    kind: str
    before: Estimate
    after: Estimate
    gain: Paired


def rows(before: Sequence[Asked], after: Sequence[Asked]) -> list[Learnt]:
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
        found.append(Learnt(kind, shares[0], shares[1], paired(olds, news, groups)))
    return found
