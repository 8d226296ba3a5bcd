"""Keeps a prompt inside a model's context by showing fewer examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Shown = TypeVar("Shown")


def fit_examples(
    build: Callable[[Sequence[Shown]], str],
    examples: Sequence[Shown],
    count_tokens: Callable[[str], int],
    limit: int,
) -> str:
    """The prompt with as many of the *last* examples as fit into ``limit`` tokens.

    Examples stand before the query in rising relevance, so the first go first.
    When even no example fits, the prompt without any is returned: it is then for
    the model to refuse.
    """
    for dropped in range(len(examples)):
        prompt = build(examples[dropped:])
        if count_tokens(prompt) <= limit:
            return prompt
    return build(())
