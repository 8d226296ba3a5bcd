"""The demonstration pool: plans and programs that worked, and failed ones with the reason.

The pool has four parts: correct and incorrect plans, correct and incorrect programs. Every update
is one whole version (:mod:`viper.storage.versioned`), so that many processes may read while one
learns, and nothing is lost when a process dies.

`add` checks and stores an example (`pool_example`, `entry_of`), `select` ranks those that fit a
prompt, and `record_outcome` moves their scores. Stored demonstrations are untrusted, so types and
lengths are checked on reading (`example_from_entry`).

Source: CLOVA (Gao et al. 2024), sec. 3.2 and 3.4.2. Differs: similarity by shared words (BM25) or
by a sentence encoder instead of BERT's features; scores fall when an example misleads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from viper.api.sets import split_api
from viper.errors import StoreError, UsageError
from viper.prompting.ranking import CachedEmbeddings, Embed, Scores, ranker
from viper.record import RecordError, record_from_json
from viper.schema import TASKS, Example, Query, to_json
from viper.storage.versioned import Entry, VersionedStore
from viper.strategies.critique import Critique
from viper.strategies.examples import (
    PARTS,
    Demonstration,
    ExampleRequest,
    ExampleStore,
    SelectedExamples,
    demonstrates,
)

# Prior of :attr:`PoolExample.score`, Beta(2, 1): a demonstration without outcomes scores 2/3.
PRIOR_HELPED, PRIOR_MISLED = 2, 1

# Several times the longest texts that strategies write; a demonstration must leave room in a
# prompt.
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
    def kind(self) -> str:
        """Return the store's kind for its one of the four parts."""
        return f"{self.example.part}/{self.example.polarity}"

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


def entry_of(demonstration: PoolExample) -> Entry:
    """Return the store's entry of a demonstration."""
    record = to_json(demonstration)
    for name in ("id", "born", *(() if demonstration.fault else ("fault",))):
        del record[name]
    return Entry(demonstration.id, demonstration.kind, record)


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
    if problem is None and entry.kind != demonstration.kind:
        problem = f"stands under {entry.kind!r}"
    if problem is not None:
        raise StoreError(f"demonstration {entry.key}: {problem}; restore a copy of the pool")
    return demonstration


# Name of the pool's folder in the state's folder.
FOLDER = "demonstrations"

# Demonstrations with a lower score are not shown, and ``viper ace pool prune`` removes them. One
# that never helped falls below it at its fourth failure (2/7).
LOWEST_SCORE = 0.3

# Most demonstrations of a pool: all are read and ranked in memory for each new version.
MOST_DEMONSTRATIONS = 20_000

# One list per part, polarity, task and API; a process asks for a few of each.
_LISTS_KEPT = 32

# Demonstrations that fit a request, best first, and the scores that rank them for a query.
_Listed = tuple[tuple[PoolExample, ...], Scores | None]


class DemonstrationPool:
    """Demonstrations in a folder. Safe to use from several threads and processes.

    Demonstrations with a score below ``LOWEST_SCORE`` are not shown.
    Implements :class:`viper.strategies.examples.ExampleStore`.

    Args:
        folder: folder of the pool. The first demonstration creates it; without it the pool is
            empty.

    Attributes:
        store: versioned store of the demonstrations.
    """

    def __init__(self, folder: Path) -> None:
        self.store = VersionedStore(folder)
        # The pool changes with every task, but most of its texts stay: each is embedded once.
        self._cached: Callable[[Embed], Embed] = lru_cache(1)(CachedEmbeddings)
        self._items: Callable[[int], tuple[PoolExample, ...]] = lru_cache(2)(self._read)
        self._listed: Callable[..., _Listed] = lru_cache(_LISTS_KEPT)(self._list)

    @property
    def fingerprint(self) -> str:
        """Return a hash of the pool's content for the records of runs; "" if the pool is empty."""
        return self.store.fingerprint

    def items(self) -> tuple[PoolExample, ...]:
        """Return all demonstrations in the order in which they were added or changed.

        Raises:
            StoreError: the pool cannot be read.
        """
        return self._items(self.store.version)

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        """Return the demonstrations of each polarity with the most similar queries, best first.

        Ties are sorted by score, then by the latest change; ``fixed`` retrieval uses only these
        two. A demonstration fits an API that includes its own, as in a bank. Demonstrations of the
        query's own sample are left out.

        Raises:
            UsageError: ``embeddings`` without an embedding model.
            UnknownNameError: there is no such retrieval.
            StoreError: the pool cannot be read.
        """
        version = self.store.version
        any_count = replace(request, correct=0, incorrect=0)  # requests of any size share a list

        def best(polarity: str, count: int) -> list[Demonstration]:
            items, scores = self._listed(version, any_count, polarity) if count else ((), None)
            order: Sequence[int] = range(len(items))
            if scores is not None:
                likeness = scores(query.text)
                order = sorted(order, key=lambda place: -likeness[place])
            ordered = (items[place] for place in order)
            others = (item for item in ordered if not demonstrates(item.example, query))
            return [Demonstration(item.id, item.example) for item in islice(others, count)]

        return SelectedExamples(
            best("correct", request.correct), best("incorrect", request.incorrect)
        )

    def add(self, demonstrations: Iterable[PoolExample], note: str = "") -> list[str]:
        """Add demonstrations as one version, all or none, and return their ids.

        A demonstration that the pool already has keeps its outcomes and gets the new validation.

        Raises:
            UsageError: the pool would grow beyond ``MOST_DEMONSTRATIONS``.
            StoreError: the pool cannot be written.
        """
        items = list(demonstrations)
        if not items:
            return []
        with self.store.update(note or f"added {len(items)}") as change:
            for item in items:
                entry = change.get(item.id)
                before = item if entry is None else example_from_entry(entry)
                on = item.validated_on or before.validated_on
                change.put(entry_of(replace(before, validated_on=on)))
            if change.count > MOST_DEMONSTRATIONS:
                raise UsageError(
                    f"{self.store.folder}: {change.count} demonstrations; at most "
                    f"{MOST_DEMONSTRATIONS} are kept, take some out with: viper ace pool prune"
                )
        return [item.id for item in items]

    def record_outcome(self, shown: Iterable[str], solved: bool) -> None:
        """Count the outcome of a task for each demonstration that its prompts showed.

        Demonstrations that were pruned in the meantime are skipped.

        Args:
            shown: ids of the demonstrations, from :attr:`viper.schema.Trial.demonstrations`.
            solved: whether the task's answer was right.
        """
        ids = set(shown)
        if not ids:
            return
        with self.store.update("solved" if solved else "not solved") as change:
            for entry in filter(None, map(change.get, sorted(ids))):
                item = example_from_entry(entry)
                counts = (item.helped + solved, item.misled + (not solved))
                change.put(entry_of(replace(item, helped=counts[0], misled=counts[1])))

    def below(self, score: float = LOWEST_SCORE) -> list[PoolExample]:
        """Return the demonstrations whose score is below this."""
        return [item for item in self.items() if item.score < score]

    def remove(self, ids: Sequence[str], note: str = "") -> None:
        """Remove demonstrations. Earlier versions keep them."""
        with self.store.update(note or f"removed {len(ids)}") as change:
            for key in ids:
                change.drop(key)

    def close(self) -> None:
        """Close the files. A later use opens them again."""
        self.store.close()

    def _read(self, version: int) -> tuple[PoolExample, ...]:
        return tuple(example_from_entry(entry) for entry in self.store.entries(version=version))

    def _list(self, version: int, request: ExampleRequest, polarity: str) -> _Listed:
        sets = set(split_api(request.api))
        newest_first = [
            item
            for item in reversed(self._items(version))
            if item.kind == f"{request.part}/{polarity}"
            and item.example.task == request.task
            and set(split_api(item.example.api)) <= sets
            and item.score >= LOWEST_SCORE
        ]
        items = tuple(sorted(newest_first, key=lambda item: -item.score))
        if request.retrieval == "fixed" or not items:
            return items, None
        rank = ranker(request.retrieval, request.embed and self._cached(request.embed))
        return items, rank([item.example.query for item in items])


class LearnedExamples:
    """:class:`~viper.strategies.examples.ExampleStore` of a pool's programs, then those of a bank.

    Correct programs of the pool with the most similar queries come first. Examples of the bank fill
    the remaining places. An empty pool changes nothing.
    """

    def __init__(self, pool: ExampleStore, bank: ExampleStore) -> None:
        self.pool, self.bank = pool, bank

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        """Return correct programs, best first. Raises the errors of pool and bank."""
        retrieval = "bm25" if request.retrieval == "fixed" else request.retrieval
        of_pool = replace(request, incorrect=0, part="program", retrieval=retrieval)
        selected = list(self.pool.select(query, of_pool).correct)
        programs = {item.example.program for item in selected}
        if len(selected) < request.correct:
            of_bank = self.bank.select(query, request).correct
            selected += [item for item in of_bank if item.example.program not in programs]
        return SelectedExamples(selected[: request.correct])


def without_pool(examples: ExampleStore) -> ExampleStore:
    """Return the bank alone where a pool's programs are shown before it."""
    return examples.bank if isinstance(examples, LearnedExamples) else examples
