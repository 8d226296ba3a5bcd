"""Chooses the names of an API that a prompt lists, if the full list would be too long.

:class:`Routers` caches a :class:`Router` for each API. :meth:`Router.choose` lists what every
program needs and what the examples call, then the names that fit the query best. :func:`overview`
does the same in characters, for clients without a prompt.

Differs: Stanić et al. 2024 list the whole library and name this as future work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

from viper.api.library import called_names
from viper.api.sets import ApiEntry
from viper.api.spec import Detail, brief_line, entry_text, render
from viper.prompting.ranking import Embed, Scores, by_words, ranker

# Names that nearly every program needs; they are listed for every query.
ESSENTIAL = frozenset(
    {"find", "exists", "simple_query", "get_video_segment_of_event", "select_answer"}
)

# Share of a full prompt's budget for the names that are listed in full; the rest lists more names
# in one line each (`benchmarks/router.py`: .980 of queries find their routine instead of .910).
FULL_SHARE = 0.7

# Number of names that an overview may show with docstring and example: a client that reads an
# overview looks for one or two functions.
_SHOWN_IN_FULL = 4

# Cached token counts: some for each of up to a few hundred names, and the latest whole prompts.
_MAX_COUNTS = 4_096

# Cached routers; one per task is usual.
_MAX_ROUTERS = 8


class Router:
    """Fits the text of an API into a budget of tokens; for any number of prompts and threads.

    Args:
        entries: the whole API of a task.
        count_tokens: counts the tokens for the language model of the prompt; equal texts must
            get equal counts.
        detail: form of the entries in the prompt.
        ranking: orders names by their fit to the query, see
            :func:`viper.prompting.ranking.ranker`.
        embed: embeds the texts that ``embeddings`` compares.

    Raises:
        UnknownNameError: no ranking has that name.
        UsageError: ``embeddings`` without a model to embed with.
    """

    def __init__(
        self,
        entries: Sequence[ApiEntry],
        count_tokens: Callable[[str], int],
        detail: Detail = "full",
        ranking: str = "bm25",
        embed: Embed | None = None,
    ) -> None:
        self._entries, self._detail, self._rank = tuple(entries), detail, ranker(ranking, embed)

        def tokens(entries: tuple[ApiEntry, ...]) -> int:
            return count_tokens(render(entries, detail)) if entries else 0

        self._tokens = lru_cache(_MAX_COUNTS)(tokens)

    def choose(self, query: str, budget: int, programs: Iterable[str] = ()) -> tuple[ApiEntry, ...]:
        """Return the names to list, in the order of the API.

        A full prompt lists the names that fit the query best in full, up to ``FULL_SHARE`` of the
        budget, and the next best as one line each.

        Args:
            budget: tokens for the text of the names. The required names may exceed it.
            programs: programs of the examples in the prompt; the names that they call are required.
        """
        if self._tokens(self._entries) <= budget:
            return self._entries
        called = {name for program in programs for name in called_names(program)}
        required = [entry for entry in self._entries if entry.name in called | ESSENTIAL]
        scores = self._scores(query)
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        candidates = _without(required, [self._entries[index] for index in order])
        share = FULL_SHARE if self._detail == "full" else 1.0
        chosen = self._extend(required, candidates, share * budget)
        if self._detail == "full":
            rest = (replace(entry, brief=True) for entry in _without(chosen, candidates))
            chosen = self._extend(chosen, rest, budget)
        by_key = {_key(entry): entry for entry in chosen}
        return tuple(by_key[_key(entry)] for entry in self._entries if _key(entry) in by_key)

    @cached_property
    def _scores(self) -> Scores:
        return self._rank([_search_text(entry) for entry in self._entries])

    def _extend(
        self, required: Sequence[ApiEntry], candidates: Iterable[ApiEntry], budget: float
    ) -> list[ApiEntry]:
        """Return ``required`` with the first candidates, as many as fit the budget."""
        used, chosen = self._tokens(tuple(required)), list(required)
        # The text of a single entry repeats the classes that it mentions. So an entry is counted
        # beside another one, whose text holds the classes already.
        neighbour = tuple(required[:1])
        neighbour_tokens = self._tokens(neighbour)
        for entry in candidates:
            used += self._tokens((*neighbour, entry)) - neighbour_tokens
            if used > budget:
                break
            chosen.append(entry)
        # Joined texts may take a token more than separate ones: drop the last until all fit.
        while len(chosen) > len(required) and self._tokens(tuple(chosen)) > budget:
            chosen.pop()
        return chosen


class Routers:
    """The routers of one reasoner, cached between prompts, so that each reads its API once."""

    def __init__(self) -> None:
        self._cached_router = lru_cache(_MAX_ROUTERS)(Router)

    def get(
        self,
        entries: tuple[ApiEntry, ...],
        count_tokens: Callable[[str], int],
        detail: Detail,
        ranking: str,
        embed: Embed | None = None,
    ) -> Router:
        """Return the router with these arguments; raises as :class:`Router`."""
        return self._cached_router(entries, count_tokens, detail, ranking, embed)


@lru_cache(maxsize=256)
def overview(entries: tuple[ApiEntry, ...], query: str, room: int) -> str:
    """Return an API in so many characters: a line for each name, and in full what fits the query.

    Args:
        entries: the names; those that fit the query worst are left out if the lines are too long.
        room: most characters of the text.
    """
    scores = by_words([_search_text(entry) for entry in entries])(query)
    order = sorted(range(len(entries)), key=lambda index: -scores[index])
    listed: set[int] = set()
    for index in order:
        if (room := room - len(brief_line(entries[index])) - 1) < 0:
            break
        listed.add(index)
    text = "\n".join(brief_line(entries[index]) for index in sorted(listed))
    for index in order[:_SHOWN_IN_FULL] if query.strip() else []:
        stub = "\n\n" + entry_text(entries[index], "full")
        if scores[index] > 0 and len(stub) <= room:
            text, room = text + stub, room - len(stub)
    return text


def _without(excluded: Iterable[ApiEntry], entries: Iterable[ApiEntry]) -> list[ApiEntry]:
    keys = {_key(entry) for entry in excluded}
    return [entry for entry in entries if _key(entry) not in keys]


def _key(entry: ApiEntry) -> tuple[str | None, str]:
    """Return the identity of a name: patches and segments have methods of the same name."""
    return entry.owner, entry.name


def _search_text(entry: ApiEntry) -> str:
    """Return the text by which a name is ranked: its words, docstring and example's query."""
    queries = [line.lstrip("# ") for line in entry.example.splitlines() if line.startswith("#")]
    return " ".join([entry.name.replace("_", " "), entry.summary, entry.docstring, *queries])
