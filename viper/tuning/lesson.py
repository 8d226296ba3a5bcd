"""What was learned from one task, as a record: for the journal, for pages, for people.

All of it is JSON values: where the blame lay, which tools were taught what from which data, which
prompts were kept and why others were not, and whether the task was solved afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from viper.errors import StoreError
from viper.schema import to_json
from viper.tuning.critique import Critique, CritiqueError
from viper.tuning.kept_prompts import evidence_of
from viper.tuning.teach import Taught


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
        prompts: of each prompt that was trained its evidence, and ``why`` where it was discarded.
        ids: of those that the pool keeps.
        problem: why nothing was learned, where that was not for validation to say.
        seconds: that it took, collecting and training.
    """

    tool: str
    concept: str
    found_by: str
    knew: float | None = None
    collected: Mapping[str, Any] = field(default_factory=dict)
    prompts: Sequence[Mapping[str, Any]] = ()
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

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; :meth:`from_json` reads them back."""
        found: dict[str, Any] = to_json(self)
        found["critiques"] = [one.to_json() for one in self.critiques]
        return found

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Lesson:
        """The inverse of :meth:`to_json`; fields it does not know are passed over.

        Raises:
            StoreError: no such record.
        """
        try:
            known = {name: values[name] for name in _names(cls) if name in values}
            known["critiques"] = [Critique.from_json(one) for one in known.get("critiques", ())]
            known["updates"] = [update_of(one) for one in known.get("updates", ())]
            lesson = cls(**known)
            float(lesson.score), float(lesson.score_after)
        except (TypeError, ValueError, AttributeError, CritiqueError) as error:
            raise StoreError(f"not a record of a lesson ({error})") from None
        return lesson


def update_of(values: Mapping[str, Any]) -> Update:
    """An update from its JSON values.

    Raises:
        StoreError: no such record.
    """
    try:
        known = {name: values[name] for name in _names(Update) if name in values}
        update = Update(**known)
        for name in ("tool", "concept", "found_by", "problem"):
            if not isinstance(getattr(update, name), str):
                raise TypeError(f"{name} is no text")
        numbers = [update.seconds, 0.0 if update.knew is None else update.knew]
        if not all(isinstance(one, int | float) for one in numbers):
            raise TypeError("seconds and knew are no numbers")
        prompts = [
            {"why": str(one.get("why", "")), **to_json(evidence_of(one))} for one in update.prompts
        ]
        ids = [str(one) for one in update.ids]
        return replace(update, prompts=prompts, ids=ids, collected=dict(update.collected))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise StoreError(f"not a record of an update ({error})") from None


def told(taught: Taught) -> list[dict[str, Any]]:
    """What is written down of each prompt that was trained."""
    return [{"why": one.why, **to_json(one.evidence)} for one in taught.trained]


def _names(record: type) -> list[str]:
    return [one.name for one in fields(record)]
