"""Learning records of tasks, and the journal in a run's folder that stores them.

A record consists of JSON values: the error attribution, the updated tools with their training data,
the prompts that were kept or discarded and why, and whether the task was solved afterwards.

Pools hold the learned prompts and demonstrations. The journal says from which task they come, why,
and what was discarded. Each task is one line of JSON, and lines are only appended. A process that
is killed while it writes loses only its own line and learns from that task again; the pools store
equal items only once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viper.models.vision.prompt_pool import Evidence
from viper.storage.json_lines import append_line, read_lines
from viper.strategies.critique import Critique

# Name of the journal in a run's folder.
JOURNAL = "lessons.jsonl"


@dataclass(frozen=True)
class PromptRecord(Evidence):
    """Evidence of a trained prompt, with the reason ``why`` it was discarded, if it was."""

    why: str = ""


@dataclass(frozen=True)
class Update:
    """Update of one tool, successful or not.

    Attributes:
        tool: the tool's name in the pool.
        concept: the concept; "" for a tool without concepts.
        found_by: ``reflection`` if a critique named the tool; ``probe`` if a call names the concept
            and the tool did not know it.
        knew: share of the collected pictures that the tool got right before; None if not tested.
        collected: origin of the data; see :mod:`viper.tuning.data_collection`.
        prompts: evidence of all trained prompts, including discarded ones.
        ids: ids of the prompts that the pool keeps.
        problem: error that prevented learning; "" if there was none.
        seconds: time for collecting and training.
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
    """Record of learning from one task.

    Attributes:
        sample_id: sample id of the task.
        seed: seed of its answer.
        score: score of the answer by the set's metric.
        score_after: score of the answer after learning; equal if nothing was learned.
        desired: the desired answer, if known.
        comment: feedback in words.
        critiques: critiques in the order of reflection.
        updates: updates of tools.
        demonstrations: ids of the demonstrations added to the pool.
        refused: number of new demonstrations that did not solve their own task.
        problem: error that ended learning early; "" if there was none.
        seconds: duration, without the first answer.
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
    """Learning records of a run's folder. Several processes may append."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL

    def add(self, record: LearningRecord) -> None:
        """Append a record. It is on disk when this returns.

        Raises:
            StoreError: the file cannot be written.
        """
        append_line(self.path, record)

    def records(self) -> list[LearningRecord]:
        """Return the last record of each task, in order. Incomplete lines are skipped.

        Raises:
            StoreError: the file cannot be read, or a complete line is not a record.
        """
        records: dict[tuple[str, int], LearningRecord] = {}
        for record in read_lines(self.path, LearningRecord, "a lesson"):
            records.pop(record.key, None)
            records[record.key] = record
        return list(records.values())
