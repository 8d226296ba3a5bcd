"""What a query means: a small tree from which its text, its program and its answer are made.

A meaning has a type and slots. A *selection* (``extreme``, ``closest``, …) denotes
one object of a scene; it is a query of its own (show me that object) and a slot of
others (what color is it?). Kinds are noun phrases in the singular: ``red cube``,
``metal thing``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

Family = Literal["referring", "question", "video"]
FAMILIES: tuple[Family, ...] = ("referring", "question", "video")

TASK_OF_FAMILY: Mapping[str, str] = {
    "referring": "ground",
    "question": "question",
    "video": "choice",
}

SELECTIONS = (
    "unique",
    "extreme",
    "nth",
    "middle",
    "closest",
    "farthest_from",
    "region",
    "region_extreme",
    "filtered_extreme",
    "same_color",
    "between",
    "biggest",
    "near_pair",
)
"""Types that denote one object of a scene."""

SlotValue = Union[str, int, "Meaning"]


@dataclass(frozen=True)
class Meaning:
    """A query type and what fills it; ``meaning["kind"]`` reads a slot."""

    type: str
    slots: Mapping[str, SlotValue]

    def __getitem__(self, slot: str) -> Any:
        return self.slots[slot]

    def __contains__(self, slot: str) -> bool:
        return slot in self.slots

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; :meth:`from_json` reads them back."""
        slots = {
            name: value.to_json() if isinstance(value, Meaning) else value
            for name, value in self.slots.items()
        }
        return {"type": self.type, **slots}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Meaning:
        """The inverse of :meth:`to_json`."""
        slots = {
            name: cls.from_json(value) if isinstance(value, Mapping) else value
            for name, value in record.items()
            if name != "type"
        }
        return cls(str(record["type"]), slots)


_OWN_STEPS = {
    "unique": 1,
    "extreme": 2,
    "nth": 2,
    "middle": 2,
    "biggest": 2,
    "closest": 1,
    "farthest_from": 1,
    "region": 1,
    "same_color": 2,
    "region_extreme": 2,
    "filtered_extreme": 3,
    "between": 1,
    "near_pair": 2,
    "count": 1,
    "count_filter": 2,
    "count_region": 1,
    "count_sum": 2,
    "difference": 2,
    "more_of": 2,
    "more_than": 2,
    "exists_region": 1,
    "several": 1,
    "which_farther": 1,
    "same": 1,
    "do_first": 2,
    "do_last": 2,
    "which_first": 2,
    "which_last": 2,
    "do_after": 2,
    "do_before": 2,
    "happens_after": 2,
    "happens_before": 2,
    "which_after": 2,
    "which_before": 2,
}


def steps(meaning: Meaning) -> int:
    """How many things have to be found, ordered or filtered one after another.

    A question about one object's attribute counts the steps to the object: a
    model that answers plain questions could do the rest in one go.
    """
    own = _OWN_STEPS.get(meaning.type, 0)
    nested = sum(steps(value) for value in meaning.slots.values() if isinstance(value, Meaning))
    return max(1, own + nested)
