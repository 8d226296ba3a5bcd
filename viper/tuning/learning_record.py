"""What was learned from one task, as a record, and the journal of a run's folder that keeps them.

All of it is JSON values: where the blame lay, which tools were taught what from which data, which
prompts were kept and why others were not, and whether the task was solved afterwards.

What a pool holds says what was learned; the journal says from which task, why, and what did not
hold. It is one line of JSON a task, only ever appended to. A process that is killed while it writes
loses its own line alone, and learns from that task again: what was in the pools by then is kept
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viper.ace.critique import Critique
from viper.storage.json_lines import append_line, read_lines
from viper.tuning.stored_prompts import Evidence

JOURNAL = "lessons.jsonl"
"""Of a run's folder."""


@dataclass(frozen=True)
class PromptRecord(Evidence):
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
        collected: where the data came from; see :mod:`viper.tuning.data_collection`.
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
    prompts: Sequence[PromptRecord] = ()
    ids: Sequence[str] = ()
    problem: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """Return tool and concept."""
        return self.tool, self.concept


@dataclass(frozen=True)
class LearningRecord:
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
        """Return sample id and seed."""
        return self.sample_id, self.seed


class Journal:
    """The lessons of a run's folder; several processes may append."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL

    def add(self, lesson: LearningRecord) -> None:
        """Append a record. It is on disk when this returns.

        Raises:
            StoreError: it cannot be written.
        """
        append_line(self.path, lesson)

    def lessons(self) -> list[LearningRecord]:
        """Return all records in order, the last one of each task. Torn lines are skipped.

        Raises:
            StoreError: the file cannot be read, or a whole line of it is no lesson.
        """
        records: dict[tuple[str, int], LearningRecord] = {}
        for lesson in read_lines(self.path, LearningRecord, "a lesson"):
            records.pop(lesson.key, None)
            records[lesson.key] = lesson
        return list(records.values())
