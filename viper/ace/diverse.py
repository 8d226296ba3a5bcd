"""Few examples that differ: in kind, in what they call, in the words of their queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from viper.ace.select import shape
from viper.agreement import normalised
from viper.schema import Example


def diverse(examples: Iterable[Example]) -> list[Example]:
    """The examples, each the one that differs most from all before it.

    Kinds of query take turns; within a kind a shape of program that was not there yet comes
    first (see :func:`viper.ace.select.shape`), then the query that shares the smallest part of
    its words with any before it, then the shorter program, then the earlier sample id.
    """
    left = [(one, shape(one.program), _words(one)) for one in examples]
    kinds: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    likest = [0.0] * len(left)
    placed: list[Example] = []
    while left:
        place = min(
            range(len(left)),
            key=lambda n: (
                kinds[left[n][0].kind],
                shapes[left[n][1]],
                likest[n],
                len(left[n][0].program),
                left[n][0].sample_id,
            ),
        )
        chosen, its_shape, words = left.pop(place)
        likest.pop(place)
        kinds[chosen.kind] += 1
        shapes[its_shape] += 1
        likest = [
            max(so_far, _likeness(words, others))
            for so_far, (_, _, others) in zip(likest, left, strict=True)
        ]
        placed.append(chosen)
    return placed


def _words(example: Example) -> frozenset[str]:
    return frozenset(normalised(example.query).split())


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of words that two queries have in common, in [0, 1]."""
    return len(one & other) / len(one | other) if one | other else 1.0
