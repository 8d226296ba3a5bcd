"""Chooses the names of an API that a prompt lists, when all of them would be too long.

Differs: Stanić et al. 2024 list the whole library and name this as future work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from viper.api.called import called_names
from viper.api.sets import ApiEntry
from viper.api.spec import Detail, render
from viper.prompting.ranking import Rank, by_words

ESSENTIAL = frozenset(
    {"find", "exists", "simple_query", "get_video_segment_of_event", "select_answer"}
)
"""What nearly every program needs; listed whatever the query."""

FULL_SHARE = 0.7
"""Of a full prompt's budget, what names shown in full may take."""


class Router:
    """Fits the text of an API into a budget of tokens.

    Args:
        entries: the whole API of a task.
        count_tokens: of the language model that will read it.
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
        self._count = count_tokens

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
        scores = self._rank(query, [_described(entry) for entry in self._entries])
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        waiting = [self._entries[index] for index in order if self._entries[index] not in kept]
        share = FULL_SHARE if self._detail == "full" else 1.0
        chosen = self._added(kept, waiting, share * budget)
        if self._detail == "full":
            rest = [replace(entry, brief=True) for entry in waiting if entry not in chosen]
            chosen = self._added(chosen, rest, budget)
        shown = {entry.name: entry for entry in chosen}
        return tuple(shown[entry.name] for entry in self._entries if entry.name in shown)

    def _added(
        self, kept: Sequence[ApiEntry], waiting: Iterable[ApiEntry], budget: float
    ) -> list[ApiEntry]:
        """``kept`` with the first of those waiting, as many as fit."""
        used, chosen = self._tokens(kept), list(kept)
        # A text alone shows the classes that it mentions; beside others they stand there already.
        beside = list(kept[:1])
        known = self._tokens(beside)
        for entry in waiting:
            used += self._tokens([*beside, entry]) - known
            if used > budget:
                break
            chosen.append(entry)
        # Texts joined may take a token more than apart: the last go until it fits.
        while len(chosen) > len(kept) and self._tokens(chosen) > budget:
            chosen.pop()
        return chosen

    def _tokens(self, entries: Sequence[ApiEntry]) -> int:
        return self._count(render(entries, self._detail)) if entries else 0


def _described(entry: ApiEntry) -> str:
    """What a name is found by: its words, what it says of itself, and its example's query."""
    asked = [line.lstrip("# ") for line in entry.example.splitlines() if line.startswith("#")]
    return " ".join([entry.name.replace("_", " "), entry.summary, entry.docstring, *asked])
