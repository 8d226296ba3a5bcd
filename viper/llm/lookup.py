"""Guesses the next tokens by looking up where the last ones stood before.

Programs repeat their prompt: API lines come back as comments, names come back as calls.
A guess costs nothing and is checked by the model in one pass over all guessed tokens, so
the text is what it would have been without guessing, only in fewer passes.

Source: Saxena 2023, prompt lookup decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_BREAK = -1


class LookupDraft:
    """Remembers texts as tokens; proposes what followed the last occurrence of the last tokens.

    Args:
        earlier: other texts to guess from, oldest first; the latest text wins.
        sizes: how many last tokens have to agree, the preferred number first.
    """

    def __init__(
        self, earlier: Iterable[Sequence[int]] = (), *, sizes: Sequence[int] = (4, 2)
    ) -> None:
        self._ids: list[int] = []
        self._sizes = tuple(sizes)
        self._next: dict[tuple[int, ...], int] = {}
        for ids in earlier:
            self.extend([*ids, _BREAK])

    def extend(self, ids: Iterable[int]) -> None:
        """Appends tokens to the current text."""
        for token in ids:
            end = len(self._ids)
            for size in self._sizes:
                if end >= size:
                    self._next[tuple(self._ids[end - size :])] = end
            self._ids.append(token)

    def propose(self, limit: int) -> list[int]:
        """At most ``limit`` tokens that may come next; empty when nothing like it was seen."""
        for size in self._sizes:
            start = self._next.get(tuple(self._ids[-size:]))
            if start is not None:
                guess = self._ids[start : start + limit]
                return guess[: guess.index(_BREAK)] if _BREAK in guess else guess
        return []
