"""The meaning of a query: a small tree that gives its text, its program and its answer.

A meaning has a type and slots. A *selection* (``extreme``, ``closest``, …) denotes one object of a
scene; it is a query by itself (show me that object) and a slot of others (what color is it?). Kinds
are noun phrases in the singular: ``red cube``, ``metal thing``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union

Family = Literal["referring", "question", "video"]
FAMILIES: tuple[Family, ...] = ("referring", "question", "video")

TASK_OF_FAMILY: Mapping[str, str] = {
    "referring": "ground",
    "question": "question",
    "video": "choice",
}

_TYPES = tomllib.loads(Path(__file__).with_name("types.toml").read_text("utf-8"))

# Share of each type: in a family, as the object of a question, of pairs.
SHARES: Mapping[str, Mapping[str, float]] = {
    family: _TYPES[family] for family in (*FAMILIES, "asked_of", "pairs")
}

AMBIGUOUS_SHARES: Mapping[str, Mapping[str, float]] = _TYPES["vague"]
RESERVED_SHARES: Mapping[str, Mapping[str, float]] = _TYPES["reserved"]

# Types that denote one object of a scene.
SELECTIONS = tuple(SHARES["referring"])

SlotValue = Union[str, int, "Meaning"]


@dataclass(frozen=True)
class Meaning:
    """A query type and its slots; ``meaning["kind"]`` reads a slot."""

    type: str
    slots: Mapping[str, SlotValue]

    def __getitem__(self, slot: str) -> Any:
        return self.slots[slot]

    def __contains__(self, slot: str) -> bool:
        return slot in self.slots

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        slots = {
            name: value.to_json() if isinstance(value, Meaning) else value
            for name, value in self.slots.items()
        }
        return {"type": self.type, **slots}


def steps(meaning: Meaning) -> int:
    """Return how many objects must be found, ordered or filtered one after another.

    A question about one object's attribute counts the steps to the object: a model that answers
    plain questions could do the rest in one step.
    """
    own = _TYPES["steps"].get(meaning.type, 0)
    nested = sum(steps(value) for value in meaning.slots.values() if isinstance(value, Meaning))
    return max(1, own + nested)
