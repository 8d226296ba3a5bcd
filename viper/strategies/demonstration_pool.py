"""The demonstration pool: plans and programs that worked, and failed ones with the reason.

The pool has four parts: correct and incorrect plans, correct and incorrect programs. Every update
is one whole version (:mod:`viper.storage.versioned`), so that many processes may read while one
learns, and nothing is lost when a process dies.

Source: CLOVA (Gao et al. 2024), sec. 3.2 and 3.4.2. Differs: similarity by shared words (BM25) or
by a sentence encoder instead of BERT's features; scores fall when an example misleads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from viper.api.library import split_api
from viper.errors import UsageError
from viper.prompting.ranking import CachedEmbeddings, Embed, Scores, ranker
from viper.schema import Query
from viper.storage.versioned import VersionedStore
from viper.strategies.examples import (
    Demonstration,
    ExampleRequest,
    ExampleStore,
    SelectedExamples,
    demonstrates,
)
from viper.strategies.pool_example import PoolExample, entry_of, example_from_entry

# Name of the pool's folder in the state's folder.
FOLDER = "demonstrations"

# Demonstrations with a lower score are not shown, and ``viper ace pool prune`` removes them.
LOWEST_SCORE = 0.3

# Most demonstrations of a pool.
MOST_DEMONSTRATIONS = 20_000

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
        self._lock = threading.Lock()
        self._embeddings: CachedEmbeddings | None = None
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

        def best(polarity: str, count: int) -> list[Demonstration]:
            sets = frozenset(split_api(request.api))
            by = (request.part, polarity, request.task, sets, request.retrieval, request.embed)
            items, scores = self._listed(version, *by) if count else ((), None)
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

    def _list(
        self,
        version: int,
        part: str,
        polarity: str,
        task: str,
        sets: frozenset[str],
        retrieval: str,
        embed: Embed | None,
    ) -> _Listed:
        newest_first = [
            item
            for item in reversed(self._items(version))
            if (item.example.part, item.example.polarity) == (part, polarity)
            and item.example.task == task
            and set(split_api(item.example.api)) <= sets
            and item.score >= LOWEST_SCORE
        ]
        items = tuple(sorted(newest_first, key=lambda item: -item.score))
        if retrieval == "fixed" or not items:
            return items, None
        rank = ranker(retrieval, None if embed is None else self._cached(embed))
        return items, rank([item.example.query for item in items])

    def _cached(self, embed: Embed) -> Embed:
        """Return an embedder that embeds each text only once.

        The pool changes with every task, but most of its texts stay.
        """
        with self._lock:
            if self._embeddings is None or self._embeddings.embed is not embed:
                self._embeddings = CachedEmbeddings(embed)
            return self._embeddings


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
        programs = {example.program for example in selected}
        if len(selected) < request.correct:
            of_bank = self.bank.select(query, request).correct
            selected += [example for example in of_bank if example.program not in programs]
        return SelectedExamples(selected[: request.correct])
