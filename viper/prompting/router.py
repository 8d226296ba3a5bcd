"""Chooses the names of an API that a prompt lists, when all of them would be too long.

Differs: Stanić et al. 2024 list the whole library and name this as future work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

from viper.api.library import called_names
from viper.api.sets import ApiEntry
from viper.api.spec import Detail, render
from viper.prompting.ranking import Embed, Rank, Scores, by_words, ranker

ESSENTIAL = frozenset(
    {"find", "exists", "simple_query", "get_video_segment_of_event", "select_answer"}
)
"""What nearly every program needs; listed whatever the query."""

FULL_SHARE = 0.7
"""Of a full prompt's budget, what names shown in full may take."""

_COUNTS_KEPT = 4_096
"""Some for each name, and the latest whole prompts."""

_ROUTERS_KEPT = 8
"""One a task is usual."""


class Router:
    """Fits the text of an API into a budget of tokens; for any number of prompts and threads.

    Args:
        entries: the whole API of a task.
        count_tokens: of the language model that will read it; equal texts count the same.
        detail: how the prompt will show them.
        rank: orders names by how well they fit the query.
    """

    def __init__(
        self,
        entries: Sequence[ApiEntry],
        count_tokens: Callable[[str], int],
        detail: Detail = "full",
        rank: Rank = by_words,
    ) -> None:
        self._entries, self._detail, self._rank = tuple(entries), detail, rank
        self._brief = {entry: replace(entry, brief=True) for entry in self._entries}

        def tokens(shown: tuple[ApiEntry, ...]) -> int:
            return count_tokens(render(shown, detail)) if shown else 0

        self._tokens = lru_cache(_COUNTS_KEPT)(tokens)

    def choose(self, query: str, budget: int, programs: Iterable[str] = ()) -> tuple[ApiEntry, ...]:
        """The names to list, in the order of the API.

        In a full prompt those that fit the query best are shown in full, as far as
        ``FULL_SHARE`` of the budget goes, and the next best as one line each.

        Args:
            budget: tokens that their text may take. What must stay may exceed it.
            programs: of the examples in the prompt; what they call always stays.
        """
        if self._tokens(self._entries) <= budget:
            return self._entries
        called = {name for program in programs for name in called_names(program)}
        kept = [e for e in self._entries if e.name in called | ESSENTIAL]
        scores = self._scores(query)
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        waiting = _without(kept, [self._entries[index] for index in order])
        share = FULL_SHARE if self._detail == "full" else 1.0
        chosen = self._added(kept, waiting, share * budget)
        if self._detail == "full":
            rest = (self._brief[entry] for entry in _without(chosen, waiting))
            chosen = self._added(chosen, rest, budget)
        shown = {_key(entry): entry for entry in chosen}
        return tuple(shown[_key(entry)] for entry in self._entries if _key(entry) in shown)

    @cached_property
    def _scores(self) -> Scores:
        return self._rank([_described(entry) for entry in self._entries])

    def _added(
        self, kept: Sequence[ApiEntry], waiting: Iterable[ApiEntry], budget: float
    ) -> list[ApiEntry]:
        """``kept`` with the first of those waiting, as many as fit."""
        used, chosen = self._tokens(tuple(kept)), list(kept)
        # A text alone shows the classes that it mentions; beside others they stand there already.
        beside = tuple(kept[:1])
        known = self._tokens(beside)
        for entry in waiting:
            used += self._tokens((*beside, entry)) - known
            if used > budget:
                break
            chosen.append(entry)
        # Texts joined may take a token more than apart: the last go until it fits.
        while len(chosen) > len(kept) and self._tokens(tuple(chosen)) > budget:
            chosen.pop()
        return chosen


class Routers:
    """The routers of one reasoner, kept between prompts, so that each reads its API once."""

    def __init__(self) -> None:
        def made(
            entries: tuple[ApiEntry, ...],
            count_tokens: Callable[[str], int],
            detail: Detail,
            ranking: str,
            embed: Embed | None,
        ) -> Router:
            return Router(entries, count_tokens, detail, ranker(ranking, embed))

        self._made = lru_cache(_ROUTERS_KEPT)(made)

    def get(
        self,
        entries: Sequence[ApiEntry],
        count_tokens: Callable[[str], int],
        detail: Detail,
        ranking: str,
        embed: Embed | None = None,
    ) -> Router:
        """The router of an API; the same one while all of these stay equal.

        Args:
            ranking: its name, see :func:`viper.prompting.ranking.ranker`.

        Raises:
            UnknownNameError: no such ranking.
            UsageError: ``embeddings`` without a model to embed with.
        """
        return self._made(tuple(entries), count_tokens, detail, ranking, embed)


def _without(those: Iterable[ApiEntry], entries: Iterable[ApiEntry]) -> list[ApiEntry]:
    known = {_key(entry) for entry in those}
    return [entry for entry in entries if _key(entry) not in known]


def _key(entry: ApiEntry) -> tuple[str | None, str]:
    """What tells names apart: pictures and segments have methods of the same name."""
    return entry.owner, entry.name


def _described(entry: ApiEntry) -> str:
    """What a name is found by: its words, what it says of itself, and its example's query."""
    asked = [line.lstrip("# ") for line in entry.example.splitlines() if line.startswith("#")]
    return " ".join([entry.name.replace("_", " "), entry.summary, entry.docstring, *asked])
