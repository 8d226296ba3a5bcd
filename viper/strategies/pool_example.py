"""Demonstration of a pool: the example, its validation, its outcomes since then.

Stored demonstrations are untrusted, so types and lengths are checked on reading.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from viper.errors import StoreError, UsageError
from viper.record import RecordError, record_from_json
from viper.schema import TASKS, Example, to_json
from viper.storage.versioned import Entry
from viper.strategies.critique import Critique
from viper.strategies.examples import PARTS

# Prior of :attr:`PoolExample.score`, Beta(2, 1): a demonstration without outcomes scores 2/3.
PRIOR_HELPED, PRIOR_MISLED = 2, 1

_LONGEST = {"query": 4_000, "program": 64_000, "plan": 16_000, "critique": 4_000}
_CONTENT = (
    "part", "polarity", "task", "api", "query", "options", "plan", "program", "critique",
)  # fmt: skip


@dataclass(frozen=True)
class PoolExample:
    """Demonstration as a pool stores it.

    Attributes:
        id: hash of the content.
        example: the example. Its ``part`` and ``polarity`` determine its part of the pool.
        validated_on: id or words of the sample that it was validated on; "" if not validated.
        helped: number of tasks that were solved with it in a prompt.
        misled: number of tasks that were not solved with it in a prompt.
        fault: fault of an incorrect example as a record, if known. The example's ``critique`` says
            it in words.
        born: version of the pool that added it or last changed it.
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

        The score is the mean of Beta(2 + helped, 1 + misled). It begins at 2/3, falls to 2/(3 + m)
        if an example misleads m times and never helps (0.29 after four), and changes less with more
        outcomes. All demonstrations of a prompt share its outcome, so it takes many prompts to
        distinguish them.
        """
        total = PRIOR_HELPED + PRIOR_MISLED + self.helped + self.misled
        return (PRIOR_HELPED + self.helped) / total


def pool_example(
    example: Example, validated_on: str = "", fault_known: Critique | None = None
) -> PoolExample:
    """Build a new demonstration, with an id that depends on its content alone.

    Raises:
        UsageError: the example cannot be a demonstration; says why.
    """
    problem = fault(example)
    if problem is not None:
        raise UsageError(f"the example {example.query[:60]!r} {problem}")
    content = to_json([getattr(example, name) for name in _CONTENT])
    digest = hashlib.sha256(json.dumps(content).encode())
    return PoolExample(digest.hexdigest()[:12], example, validated_on, fault=fault_known)


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


def entry_of(demonstration: PoolExample) -> Entry:
    """Return the store's entry of a demonstration."""
    record = to_json(demonstration)
    for name in ("id", "born", *(() if demonstration.fault else ("fault",))):
        del record[name]
    return Entry(
        demonstration.id,
        kind_of_part(demonstration.example.part, demonstration.example.polarity),
        record,
    )


def example_from_entry(entry: Entry) -> PoolExample:
    """Build the demonstration from an entry of a versioned store.

    Raises:
        StoreError: the entry is not a valid demonstration.
    """
    try:
        demonstration = record_from_json(
            PoolExample, {**entry.record, "id": entry.key, "born": entry.created_in}
        )
        problem = fault(demonstration.example)
    except (RecordError, TypeError) as error:
        raise StoreError(f"demonstration {entry.key}: not readable ({error})") from None
    if problem is None and entry.kind != kind_of_part(
        demonstration.example.part, demonstration.example.polarity
    ):
        problem = f"stands under {entry.kind!r}"
    if problem is not None:
        raise StoreError(f"demonstration {entry.key}: {problem}; restore a copy of the pool")
    return demonstration
