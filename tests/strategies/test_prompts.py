"""Fewer examples where the context is short."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from viper.strategies.prompts import fit_examples


def build(examples: Sequence[str]) -> str:
    return " ".join([*reversed(examples), "query"])


class Words:
    """Counts words, and how often it was asked."""

    def __init__(self, max_context: int | None) -> None:
        self.max_context, self.counted = max_context, 0

    def count_tokens(self, text: str) -> int:
        self.counted += 1
        return len(text.split())


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (14, "c b a query"),
        (13, "b a query"),
        (12, "a query"),
        (11, "query"),
        (3, "query"),
        (None, "c b a query"),
    ],
)
def test_the_worst_go_first(context: int | None, expected: str) -> None:
    prompt, shown = fit_examples(build, ["a", "b", "c"], Words(context), 10)
    assert prompt == expected == build(shown)


def test_every_room_is_filled_and_counting_is_cheap() -> None:
    examples = [f"e{n}" for n in range(100)]
    for room in range(103):
        words = Words(room)
        _, shown = fit_examples(build, examples, words, 0)
        assert len(shown) == min(100, max(0, room - 1)) and words.counted <= 9


def test_without_examples_nothing_is_counted() -> None:
    words = Words(5)
    assert fit_examples(build, [], words, 5) == ("query", []) and words.counted == 0
