"""What was learned from one task, as a record: for the journal, for pages, for people.

All of it is JSON values: where the blame lay, which tools were taught what from which data, which
prompts were kept and why others were not, and whether the task was solved afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viper.tuning.critique import Critique
from viper.tuning.kept_prompts import Evidence


@dataclass(frozen=True)
class TriedPrompt(Evidence):
    """A prompt that was trained: its evidence, and ``why`` it was discarded, if it was."""

    why: str = ""


@dataclass(frozen=True)
class Update:
    """One tool that was taught one thing, or could not be.

    Attributes:
        tool: the pool's name of it.
        concept: "" for a tool without concepts.
        found_by: ``reflection``: a critique blamed the tool; ``probe``: a call names the concept,
            and the tool did not know it.
        knew: share of the collected pictures that it got right before; None: not asked.
        collected: where the data came from; see :mod:`viper.tuning.collecting`.
        prompts: that were trained, the discarded ones among them.
        ids: of those that the pool keeps.
        problem: why nothing was learned, where that was not for validation to say.
        seconds: that it took, collecting and training.
    """

    tool: str
    concept: str
    found_by: str
    knew: float | None = None
    collected: Mapping[str, Any] = field(default_factory=dict)
    prompts: Sequence[TriedPrompt] = ()
    ids: Sequence[str] = ()
    problem: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """Tool and concept."""
        return self.tool, self.concept


@dataclass(frozen=True)
class Lesson:
    """What one task taught.

    Attributes:
        sample_id: of the task.
        seed: of its answer.
        score: of the answer, by the set's metric.
        score_after: of the answer that was given afterwards; equal where nothing was learned.
        desired: what would have been right, where it is known.
        comment: feedback in words.
        critiques: what was blamed, in the order in which it was asked.
        updates: of tools.
        demonstrations: ids of those that came into the pool.
        refused: how many new demonstrations their own task did not bear out.
        problem: why it ended early; empty where it did not.
        seconds: that it took, without answering.
    """

    sample_id: str
    seed: int
    score: float
    score_after: float
    desired: Any = None
    comment: str = ""
    critiques: Sequence[Critique] = ()
    updates: Sequence[Update] = ()
    demonstrations: Sequence[str] = ()
    refused: int = 0
    problem: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        """Sample id and seed."""
        return self.sample_id, self.seed
