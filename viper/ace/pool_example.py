"""One demonstration of a pool: the example, what it was validated on, how it fared since.

What is read may have been written by anybody: kinds and lengths are checked.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from viper.ace.critique import Critique
from viper.errors import StoreError, UsageError
from viper.record import RecordError, record_from_json
from viper.schema import TASKS, Example, to_json
from viper.storage.versioned import Entry
from viper.strategies.examples import PARTS

PRIOR_HELPED, PRIOR_MISLED = 2, 1
"""The prior of :attr:`PoolExample.score`, Beta(2, 1): what nobody was shown yet has two thirds."""

_LONGEST = {"query": 4_000, "program": 64_000, "plan": 16_000, "critique": 4_000}
_CONTENT = (
    "part", "polarity", "task", "api", "query", "options", "plan", "program", "critique",
)  # fmt: skip


@dataclass(frozen=True)
class PoolExample:
    """A demonstration as a pool keeps it.

    Attributes:
        id: of its content; the same content has the same.
        example: its ``part`` and ``polarity`` say where in the pool it stands.
        validated_on: the sample id, or the words, of what it was validated on; empty: of nothing.
        helped: tasks that were solved with it in a prompt.
        misled: tasks that were not.
        fault: what is wrong with an incorrect one, where somebody knows it as a record; its
            ``critique`` says it in words.
        born: the pool's version in which it became what it is.
    """

    id: str
    example: Example
    validated_on: str = ""
    helped: int = field(default=0, metadata={"strict": True, "ge": 0})
    misled: int = field(default=0, metadata={"strict": True, "ge": 0})
    fault: Critique | None = None
    born: int = field(default=0, compare=False)

    @property
    def validated(self) -> bool:
        """Return whether the demonstration solved the instruction that it came from."""
        return bool(self.validated_on)

    @property
    def score(self) -> float:
        """Return the probability that a prompt with this demonstration solves its task, in (0, 1).

        The mean of Beta(2 + helped, 1 + misled): it begins at 2/3, falls to 2/(3 + m) when an
        example misleads m times and never helps (0.29 after four), and moves the less the more is
        known. All demonstrations of a prompt share its outcome: one prompt says little of each of
        them, many prompts tell them apart.
        """
        total = PRIOR_HELPED + PRIOR_MISLED + self.helped + self.misled
        return (PRIOR_HELPED + self.helped) / total


def pool_example(
    example: Example, validated_on: str = "", fault_known: Critique | None = None
) -> PoolExample:
    """Build a new demonstration, with an id that depends on its content alone.

    Raises:
        UsageError: an example that cannot demonstrate anything; says why.
    """
    problem = fault(example)
    if problem is not None:
        raise UsageError(f"the example {example.query[:60]!r} {problem}")
    content = to_json([getattr(example, name) for name in _CONTENT])
    named = hashlib.sha256(json.dumps(content).encode())
    return PoolExample(named.hexdigest()[:12], example, validated_on, fault=fault_known)


def fault(example: Example) -> str | None:
    """Return why an example cannot be a demonstration, or None if it can."""
    if example.part not in PARTS:
        return f"demonstrates {example.part!r}; expected plan or program as its part"
    if example.task not in TASKS or example.task == "auto":
        return f"has the task {example.task!r}, which is none"
    needed = ["query", "plan"] if example.part == "plan" else ["query", "program"]
    if example.polarity == "incorrect":
        needed.append("critique")
    for name, most in _LONGEST.items():
        text = getattr(example, name)
        if name in needed and not (text or "").strip():
            return f"has no {name}, which a {example.polarity} {example.part} needs"
        if len(text or "") > most:
            return f"has a {name} of {len(text or '')} characters; at most {most}"
    return None


def kind_of_part(part: str, polarity: str) -> str:
    """Return the store's kind for one of the four parts."""
    return f"{part}/{polarity}"


def entry_of(one: PoolExample) -> Entry:
    """Return the store's entry of a demonstration."""
    record = to_json(one)
    for name in ("id", "born", *(() if one.fault else ("fault",))):
        del record[name]
    return Entry(one.id, kind_of_part(one.example.part, one.example.polarity), record)


def example_from_entry(entry: Entry) -> PoolExample:
    """Build the demonstration from an entry of a versioned store.

    Raises:
        StoreError: the entry is none.
    """
    try:
        one = record_from_json(
            PoolExample, {**entry.record, "id": entry.key, "born": entry.created_in}
        )
        problem = fault(one.example)
    except (RecordError, TypeError) as error:
        raise StoreError(f"demonstration {entry.key}: not readable ({error})") from None
    if problem is None and entry.topic != kind_of_part(one.example.part, one.example.polarity):
        problem = f"stands under {entry.topic!r}"
    if problem is not None:
        raise StoreError(f"demonstration {entry.key}: {problem}; restore a copy of the pool")
    return one
