"""The program writer's curriculum: what it is trained on, and for how long.

First the grammar, nouns and names (``GROUND``), then what examples alone can show
(``FURTHER``), last prompts as they will be (``LAST``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viper_lab.recipes.writer_documents import DocumentOptions


@dataclass(frozen=True)
class Stage:
    """A part of the curriculum, up to a share of all steps; longer documents are left out."""

    until: float
    max_tokens: int
    documents: DocumentOptions


@dataclass(frozen=True)
class Part:
    """A training of its own that starts from the averaged weights of the part before.

    Attributes:
        name: of its checkpoint; its documents are drawn from it too.
        step_tokens: about how many tokens a step takes.
    """

    name: str
    stages: Sequence[Stage]
    steps: int
    learning_rate: float
    warmup: int = 60
    step_tokens: int = 5000

    def stage(self, step: int) -> Stage:
        """The one that a step belongs to."""
        return next(
            (stage for stage in self.stages if step < stage.until * self.steps), self.stages[-1]
        )


GROUND: tuple[Stage, ...] = (
    Stage(
        0.08, 256, DocumentOptions(programs=1, made_up_names=0.6, full_header=0.0, extra_lines=3)
    ),
    Stage(
        0.50, 512, DocumentOptions(programs=3, made_up_names=0.5, full_header=0.15, extra_lines=8)
    ),
    Stage(1.00, 1100, DocumentOptions(programs=5, full_header=0.5)),
)
"""Short headers with invented names first: that is where reading the API text is learned."""


FURTHER: tuple[Stage, ...] = (
    Stage(
        0.45,
        512,
        DocumentOptions(
            programs=5,
            made_up_names=0.25,
            made_up_nouns=0.3,
            full_header=0.0,
            extra_lines=4,
            selections=0.05,
            vipergpt=0.3,
            vague=1.0,
            vague_shares=(1.0,),
            focused=1.0,
            most_sorts=2,
        ),
    ),
    Stage(
        1.00,
        1500,
        DocumentOptions(
            programs=8,
            made_up_nouns=0.5,
            made_up_names=0.4,
            full_header=0.5,
            selections=0.15,
            vipergpt=0.3,
            lone=0.34,
            vague=0.75,
            bare=0.6,
            failed=0.06,
        ),
    ),
)
"""Vague queries, whose meaning only earlier programs of the same document tell: first many
of the same sort in short documents, which is where a writer learns to look back at all."""

LAST: tuple[Stage, ...] = (
    Stage(
        1.00,
        1800,
        DocumentOptions(
            programs=8,
            made_up_nouns=0.4,
            made_up_names=0.4,
            full_header=0.6,
            selections=0.12,
            vipergpt=0.3,
            lone=0.45,
            vague=0.7,
            focused=0.5,
            banks=0.4,
            failed=0.06,
        ),
    ),
)
"""Prompts as they will be: half of them without examples, the others with a bank's."""


GROUND_PART = Part("writer", GROUND, 4600, 3e-3, warmup=40, step_tokens=4000)
FURTHER_PART = Part("further", FURTHER, 1600, 3e-3)
LAST_PART = Part("last", LAST, 2000, 2e-3)
