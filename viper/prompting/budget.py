"""Keeps a prompt inside a model's context by showing fewer examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Shown = TypeVar("Shown")


class Reader(Protocol):
    """What is asked of a model; every :class:`viper.models.llm.protocol.LLM` is one.

    ``max_context`` is None where the model does not say it.
    """

    @property
    def max_context(self) -> int | None: ...

    def count_tokens(self, text: str) -> int: ...


def in_order(best_first: Sequence[Shown], order: str) -> list[Shown]:
    """Examples as they stand in a prompt: ``rising`` puts the best next to the query."""
    return list(reversed(best_first)) if order == "rising" else list(best_first)


def fit_examples(
    build: Callable[[Sequence[Shown]], str],
    best_first: Sequence[Shown],
    reader: Reader,
    max_tokens: int,
) -> tuple[str, Sequence[Shown]]:
    """The prompt with as many of the best examples as leave room for a program, and which.

    Usually all fit, and one prompt is counted; otherwise their number is halved towards the one
    that fits. When not even one does, there are none: what is left is then for the model to
    refuse. Without examples nothing is counted.

    Args:
        build: the prompt that shows these, given the best first; fewer make a shorter one.
        best_first: the examples that are wanted.
        max_tokens: kept free for the program.
    """
    if not best_first or reader.max_context is None:
        return build(best_first), best_first
    room = reader.max_context - max_tokens
    prompt = build(best_first)
    if reader.count_tokens(prompt) <= room:
        return prompt, best_first
    fits, too_many = 0, len(best_first)
    prompt = build(())
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        tried = build(best_first[:middle])
        if reader.count_tokens(tried) <= room:
            fits, prompt = middle, tried
        else:
            too_many = middle
    return prompt, best_first[:fits]
