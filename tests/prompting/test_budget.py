"""Fewer examples where the context is short."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from viper.prompting.budget import fit_examples


def build(examples: Sequence[str]) -> str:
    return " ".join([*examples, "query"])


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(4, "a b c query"), (3, "b c query"), (2, "c query"), (1, "query"), (0, "query")],
)
def test_the_first_go_first(limit: int, expected: str) -> None:
    assert fit_examples(build, ["a", "b", "c"], words, limit) == expected


def test_without_examples() -> None:
    assert fit_examples(build, [], words, 5) == "query"
