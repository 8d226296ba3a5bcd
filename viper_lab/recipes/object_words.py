"""Attribute families of the world's objects and the phrases that mention some of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from viper_lab.world.scene import SceneObject
from viper_lab.world.vocabulary import COLOURS, MATERIALS, SHAPES, SIZES

# Family -> its words, in the order of the words of a phrase.
FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"size": SIZES, "colour": COLOURS, "material": MATERIALS, "shape": SHAPES}
)

GENERAL_NOUNS = ("thing", "object")


def attributes(thing: SceneObject) -> dict[str, str]:
    """Return the object's word of each family."""
    return {family: getattr(thing, family) for family in FAMILIES}


def fits(thing: SceneObject, named: Mapping[str, str]) -> bool:
    """Return whether the object has all of the named words."""
    return all(getattr(thing, family) == word for family, word in named.items())


def attribute_ids(thing: SceneObject) -> list[int]:
    """Return the index of the object's word in each family, in the order of :data:`FAMILIES`."""
    words = attributes(thing)
    return [FAMILIES[family].index(words[family]) for family in FAMILIES]


def phrase(
    words: Mapping[str, str],
    general_noun: str | None = None,
    shuffle: np.random.Generator | None = None,
) -> str:
    """Return a phrase of the given words, e.g. ``small red cube``.

    Args:
        words: some families and their words.
        general_noun: ends a phrase without a shape; None leaves the bare adjectives.
        shuffle: puts the adjectives in random order; None keeps the usual one.
    """
    adjectives = [words[family] for family in FAMILIES if family in words and family != "shape"]
    if shuffle is not None:
        shuffle.shuffle(adjectives)
    noun = words.get("shape", general_noun)
    return " ".join([*adjectives, *([noun] if noun else [])])


def some_attributes(thing: SceneObject, rng: np.random.Generator) -> dict[str, str]:
    """Draw a random non-empty part of the object's attributes."""
    words = attributes(thing)
    subset = {family: word for family, word in words.items() if rng.random() < 0.6}
    if subset:
        return subset
    family = list(words)[int(rng.integers(len(words)))]
    return {family: words[family]}
