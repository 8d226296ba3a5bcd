"""Noun phrases about objects of the embedded world, drawn and matched by the dozen.

An object's attributes and what a phrase asks for are rows of four small integers
in the order of :data:`FAMILIES`; -1 in a phrase means "any".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from viper_lab.world.scene import SceneObject
from viper_lab.world.vocabulary import (
    COLOURS,
    HELD_OUT_COMBINATIONS,
    MATERIALS,
    RESERVED_COLOURS,
    RESERVED_SHAPES,
    SHAPES,
    SIZES,
)

FAMILIES: tuple[tuple[str, ...], ...] = (SIZES, COLOURS, MATERIALS, SHAPES)
"""The values of size, colour, material and shape: also the order of words in a phrase."""

GENERAL_NOUNS = ("object", "thing")

_SIZE, _COLOUR, _MATERIAL, _SHAPE = range(4)

# Which attributes a drawn phrase names, and how often.
_KINDS: tuple[tuple[tuple[int, ...], float], ...] = (
    ((_COLOUR, _SHAPE), 0.26),
    ((_SIZE, _COLOUR, _MATERIAL, _SHAPE), 0.22),
    ((_COLOUR,), 0.10),
    ((_MATERIAL, _SHAPE), 0.08),
    ((_SIZE, _SHAPE), 0.08),
    ((_SIZE, _COLOUR, _SHAPE), 0.09),
    ((_COLOUR, _MATERIAL, _SHAPE), 0.05),
    ((_SIZE,), 0.03),
    ((_MATERIAL,), 0.03),
    ((_SIZE, _COLOUR), 0.02),
    ((_COLOUR, _MATERIAL), 0.02),
    ((_SIZE, _MATERIAL, _SHAPE), 0.02),
)


class Phrases(NamedTuple):
    """Texts and what each asks for: ``wanted`` int64 [Q, 4], -1 where any value will do."""

    texts: list[str]
    wanted: NDArray[np.int64]


def attributes_of(objects: Sequence[SceneObject]) -> NDArray[np.int64]:
    """int64 [N, 4]: each object's value index in every family (-1 for a reserved value)."""
    rows = [
        [
            values.index(value) if value in values else -1
            for values, value in zip(FAMILIES, (o.size, o.colour, o.material, o.shape), strict=True)
        ]
        for o in objects
    ]
    return np.asarray(rows, np.int64).reshape(-1, 4)


def matches(attributes: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool [N, Q]: whether object n is what phrase q asks for."""
    same = attributes[:, None, :] == wanted[None, :, :]
    return np.asarray((same | (wanted[None] < 0)).all(axis=-1))


def phrase_text(wanted: Sequence[int], noun: str = "object", plural: bool = False) -> str:
    """The phrase for one row of attributes, e.g. ``small red metal cube``.

    ``noun`` stands in where the row names no shape.
    """
    words = [values[i] for values, i in zip(FAMILIES, wanted, strict=True) if i >= 0]
    if wanted[_SHAPE] < 0:
        words.append(noun)
    return " ".join(words) + ("s" if plural else "")


def is_held_out(wanted: Sequence[int]) -> bool:
    """Whether a phrase names a (colour, shape) pair kept for the test split."""
    colour, shape = wanted[_COLOUR], wanted[_SHAPE]
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
    """Different phrases for a batch: a general noun, every shape, then random ones.

    Most random ones describe an object of the batch, some of them with one word
    changed, so that what is nearly there is learned not to be there. Held-out pairs
    are never drawn: as constant negatives they would be learned to be impossible.

    Args:
        rng: source of all choices.
        present: int64 [N, 4], attributes of the batch's objects.
        count: how many phrases to return.
        plural: share of plurals.
        altered: share of phrases with a word changed.
    """
    rows = [(-1, -1, -1, -1), *((-1, -1, -1, shape) for shape in range(len(SHAPES)))]
    known = set(rows)
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
        if key not in known and not is_held_out(key):
            known.add(key)
            rows.append(key)
    texts = [
        phrase_text(row, GENERAL_NOUNS[int(rng.random() < 0.5)], bool(rng.random() < plural))
        for row in rows
    ]
    return Phrases(texts, np.asarray(rows, np.int64))


def corpus() -> list[str]:
    """Texts that hold every word of the world often enough for a tokenizer to keep it whole.

    Reserved words are left out on purpose: a model that never learned them should
    not own tokens for them.
    """
    reserved = {*RESERVED_SHAPES, *RESERVED_COLOURS}
    nouns = [*SHAPES, *GENERAL_NOUNS]
    words = [w for values in FAMILIES for w in values] + nouns + [f"{noun}s" for noun in nouns]
    return sorted({word for word in words if word not in reserved})
