"""Noun phrases about objects of the embedded world, drawn and matched in batches.

Attributes of an object and of a phrase are rows of four small integers in the order of
:data:`FAMILIES`; -1 in a phrase means "any".
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from viper_lab.recipes import object_words
from viper_lab.world.scene import SceneObject
from viper_lab.world.vocabulary import (
    COLOURS,
    HELD_OUT_COMBINATIONS,
    RESERVED_COLOURS,
    RESERVED_SHAPES,
    SHAPES,
)

# Values of size, colour, material and shape, which is also the word order of a phrase.
FAMILIES = tuple(object_words.FAMILIES.values())

GENERAL_NOUNS = ("object", "thing")

_COLOUR, _SHAPE = list(object_words.FAMILIES).index("colour"), len(FAMILIES) - 1

# Families that a random phrase names, by their numbers, with the share of such phrases.
_KINDS: Sequence[tuple[tuple[int, ...], float]] = [
    (tuple(map(list(object_words.FAMILIES).index, families.split())), share)
    for families, share in tomllib.loads(
        Path(__file__).with_name("detector_phrases.toml").read_text("utf-8")
    )["shares"].items()
]


class Phrases(NamedTuple):
    """Texts and their attributes: ``queries`` int64 [Q, 4], -1 for any value."""

    texts: list[str]
    queries: NDArray[np.int64]


def attributes_of(objects: Sequence[SceneObject]) -> NDArray[np.int64]:
    """Return each object's value index in every family, int64 [N, 4] (-1 for a reserved value)."""
    rows = [
        [
            values.index(value) if value in values else -1
            for values, value in zip(FAMILIES, (o.size, o.colour, o.material, o.shape), strict=True)
        ]
        for o in objects
    ]
    return np.asarray(rows, np.int64).reshape(-1, 4)


def matches(attributes: NDArray[np.int64], queries: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return bool [N, Q], true where object n matches phrase q."""
    same = attributes[:, None, :] == queries[None, :, :]
    return np.asarray((same | (queries[None] < 0)).all(axis=-1))


def phrase_text(row: Sequence[int], noun: str = "object", plural: bool = False) -> str:
    """Return the phrase for one row of attributes, e.g. ``small red metal cube``.

    ``noun`` replaces the shape if the row names none.
    """
    words = [values[i] for values, i in zip(FAMILIES, row, strict=True) if i >= 0]
    if row[_SHAPE] < 0:
        words.append(noun)
    return " ".join(words) + ("s" if plural else "")


def is_held_out(row: Sequence[int]) -> bool:
    """Return whether a phrase names a (colour, shape) pair that is held out for the test split."""
    colour, shape = row[_COLOUR], row[_SHAPE]
    if colour < 0 or shape < 0:
        return False
    return (COLOURS[colour], SHAPES[shape]) in HELD_OUT_COMBINATIONS


def draw_phrases(
    rng: np.random.Generator,
    present: NDArray[np.int64],
    count: int,
    *,
    plural: float = 0.12,
    altered: float = 0.35,
) -> Phrases:
    """Draw different phrases for a batch: a general noun, every shape, then random ones.

    Most random phrases describe an object of the batch, and some of these have one word changed, so
    that the model learns to reject near misses. Held-out pairs are never drawn: as constant
    negatives they would be learned as impossible.

    Args:
        rng: source of all choices.
        present: int64 [N, 4], attributes of the batch's objects.
        count: number of phrases to return.
        plural: share of plurals.
        altered: share of phrases with a word changed.
    """
    rows = [(-1, -1, -1, -1), *((-1, -1, -1, shape) for shape in range(len(SHAPES)))]
    unique = set(rows)
    weights = np.cumsum([weight for _, weight in _KINDS])
    for _ in range(20 * count):
        if len(rows) >= count:
            break
        families = _KINDS[int(np.searchsorted(weights, rng.random() * weights[-1]))][0]
        row = [-1, -1, -1, -1]
        source = present[int(rng.integers(len(present)))] if len(present) else None
        for family in families:
            row[family] = int(source[family] if source is not None else -1)
            if row[family] < 0:
                row[family] = int(rng.integers(len(FAMILIES[family])))
        if rng.random() < altered:
            family = families[int(rng.integers(len(families)))]
            row[family] = int(rng.integers(len(FAMILIES[family])))
        key = (row[0], row[1], row[2], row[3])
        if key not in unique and not is_held_out(key):
            unique.add(key)
            rows.append(key)
    texts = [
        phrase_text(row, GENERAL_NOUNS[int(rng.random() < 0.5)], bool(rng.random() < plural))
        for row in rows
    ]
    return Phrases(texts, np.asarray(rows, np.int64))


def corpus() -> list[str]:
    """Return texts that hold every word of the world often enough to become a single token.

    Reserved words are left out on purpose: a model that never learned them must not own tokens for
    them.
    """
    reserved = {*RESERVED_SHAPES, *RESERVED_COLOURS}
    nouns = [*SHAPES, *GENERAL_NOUNS]
    words = [w for values in FAMILIES for w in values] + nouns + [f"{noun}s" for noun in nouns]
    return sorted({word for word in words if word not in reserved})
