"""The demonstration pool: plans and programs that worked, and those that did not with the reason.

Four parts: plans and programs, each correct and incorrect. Every update is one whole version
(:mod:`viper.storage.versioned`), so that many processes may read while one learns, and nothing
that was learned is lost when a process dies.

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

from viper.ace.bank import demonstrates
from viper.ace.pool_example import PoolExample, entry_of, example_from_entry
from viper.api.library import split_api
from viper.errors import UsageError
from viper.prompting.ranking import CachedEmbeddings, Embed, Scores, ranker
from viper.schema import Query
from viper.storage.versioned import VersionedStore
from viper.strategies.examples import Demonstration, ExampleRequest, ExampleStore, SelectedExamples

FOLDER = "demonstrations"
"""Of the pool, in the state's folder."""

LOWEST_SCORE = 0.3
"""Below it a demonstration is not shown any more, and ``viper ace pool prune`` takes it out."""

MOST_DEMONSTRATIONS = 20_000
"""Of a whole pool."""

_LISTS_KEPT = 32

_Listed = tuple[tuple[PoolExample, ...], Scores | None]
"""The demonstrations that fit, the best first, and what ranks them by a query."""


class DemonstrationPool:
    """Demonstrations in a folder; safe to use from several threads and processes.

    Those whose score is below ``LOWEST_SCORE`` are not shown.
    Fulfils :class:`viper.strategies.examples.ExampleStore`.

    Args:
        folder: made by the first demonstration; where there is none the pool is empty.

    Attributes:
        store: its versions.
    """

    def __init__(self, folder: Path) -> None:
        self.store = VersionedStore(folder)
        self._lock = threading.Lock()
        self._embeddings: CachedEmbeddings | None = None
        self._items: Callable[[int], tuple[PoolExample, ...]] = lru_cache(2)(self._read)
        self._listed: Callable[..., _Listed] = lru_cache(_LISTS_KEPT)(self._found)

    @property
    def fingerprint(self) -> str:
        """Return a hash of the pool's content for the records of runs that use it; "" if it is
        empty."""
        return self.store.fingerprint

    def items(self) -> tuple[PoolExample, ...]:
        """Return all demonstrations in the order in which they were added or changed.

        Raises:
            StoreError: the pool cannot be read.
        """
        return self._items(self.store.version)

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        """Return the demonstrations of each kind whose queries are most like the query, best first.

        Where two are alike, the one with the higher score comes first, then the one that came or
        changed last; by ``fixed`` retrieval these two alone decide. A demonstration fits an API
        that holds its own, as an example of a bank does, and none of the query's own sample is
        given.

        Raises:
            UsageError: ``embeddings`` without a model to embed with.
            UnknownNameError: no such retrieval.
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
            others = (one for one in ordered if not demonstrates(one.example, query))
            return [Demonstration(one.id, one.example) for one in islice(others, count)]

        return SelectedExamples(
            best("correct", request.correct), best("incorrect", request.incorrect)
        )

    def add(self, demonstrations: Iterable[PoolExample], note: str = "") -> list[str]:
        """Add demonstrations as one version, all of them or none, and return their ids.

        One that is there already keeps its outcomes; what it was validated on now is noted.

        Raises:
            UsageError: the pool would grow beyond ``MOST_DEMONSTRATIONS``.
            StoreError: it cannot be written.
        """
        items = list(demonstrations)
        if not items:
            return []
        with self.store.update(note or f"added {len(items)}") as change:
            for one in items:
                entry = change.get(one.id)
                before = one if entry is None else example_from_entry(entry)
                on = one.validated_on or before.validated_on
                change.put(entry_of(replace(before, validated_on=on)))
            if change.count > MOST_DEMONSTRATIONS:
                raise UsageError(
                    f"{self.store.folder}: {change.count} demonstrations; at most "
                    f"{MOST_DEMONSTRATIONS} are kept, take some out with: viper ace pool prune"
                )
        return [one.id for one in items]

    def record_outcome(self, shown: Iterable[str], solved: bool) -> None:
        """Count one task for each demonstration that its prompts showed.

        Those that were pruned meanwhile are passed over.

        Args:
            shown: their ids, as :attr:`viper.schema.Trial.demonstrations` names them.
            solved: whether the task's answer was right.
        """
        ids = set(shown)
        if not ids:
            return
        with self.store.update("solved" if solved else "not solved") as change:
            for entry in filter(None, map(change.get, sorted(ids))):
                one = example_from_entry(entry)
                counts = (one.helped + solved, one.misled + (not solved))
                change.put(entry_of(replace(one, helped=counts[0], misled=counts[1])))

    def below(self, score: float = LOWEST_SCORE) -> list[PoolExample]:
        """Return the demonstrations whose score is below this."""
        return [one for one in self.items() if one.score < score]

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

    def _found(
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
            one
            for one in reversed(self._items(version))
            if (one.example.part, one.example.polarity) == (part, polarity)
            and one.example.task == task
            and set(split_api(one.example.api)) <= sets
            and one.score >= LOWEST_SCORE
        ]
        items = tuple(sorted(newest_first, key=lambda one: -one.score))
        if retrieval == "fixed" or not items:
            return items, None
        rank = ranker(retrieval, None if embed is None else self._kept(embed))
        return items, rank([one.example.query for one in items])

    def _kept(self, embed: Embed) -> Embed:
        """Return an embedder that computes each text once, because the pool changes with every
        task."""
        with self._lock:
            if self._embeddings is None or self._embeddings.embed is not embed:
                self._embeddings = CachedEmbeddings(embed)
            return self._embeddings


class LearnedExamples:
    """An :class:`~viper.strategies.examples.ExampleStore`: a pool's programs, then those of a bank.

    Programs that worked and are most like the query come first; what room they leave is filled
    from the bank. An empty pool changes nothing.
    """

    def __init__(self, pool: ExampleStore, bank: ExampleStore) -> None:
        self.pool, self.bank = pool, bank

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        """Return correct programs, the best ones first; raises as pool and bank do."""
        retrieval = "bm25" if request.retrieval == "fixed" else request.retrieval
        of_pool = replace(request, incorrect=0, part="program", retrieval=retrieval)
        selected = list(self.pool.select(query, of_pool).correct)
        programs = {one.program for one in selected}
        if len(selected) < request.correct:
            of_bank = self.bank.select(query, request).correct
            selected += [one for one in of_bank if one.program not in programs]
        return SelectedExamples(selected[: request.correct])
