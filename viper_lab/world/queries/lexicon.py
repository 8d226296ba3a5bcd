"""Nouns of queries: the words, and how phrases are drawn from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypedDict, Unpack

from viper_lab.world.vocabulary import COLOURS, HELD_OUT_COMBINATIONS, MATERIALS, SHAPES, SIZES

GENERAL_NOUNS = ("thing", "object")

# Attribute families in the word order of a phrase.
FAMILIES = ("size", "color", "material", "shape")


# Number of objects of a noun phrase: exactly one, two or more, any number.
Number = Literal["one", "many", "some"]

_NAMED_SHARE: Mapping[Number, float] = {"one": 0.5, "many": 0.25, "some": 0.4}


class NoSuchNounError(Exception):
    """This scene has no suitable phrase; draw another meaning or scene."""


@dataclass(frozen=True)
class Lexicon:
    """The words of each attribute family. Replace them for an invented language."""

    sizes: tuple[str, ...] = SIZES
    colors: tuple[str, ...] = COLOURS
    materials: tuple[str, ...] = MATERIALS
    shapes: tuple[str, ...] = SHAPES
    held_out: frozenset[tuple[str, str]] = HELD_OUT_COMBINATIONS

    def family(self, name: str) -> tuple[str, ...]:
        """Return the words of ``size``, ``color``, ``material`` or ``shape``."""
        words: tuple[str, ...] = getattr(self, f"{name}s")
        return words


WORLD = Lexicon()


def head(kind: str) -> str:
    """Return the noun of a kind: ``cube`` of ``red cube``."""
    return kind.rsplit(" ", 1)[-1]


def is_general(kind: str) -> bool:
    """Return whether the noun does not state the shape (``red thing``)."""
    return head(kind) in GENERAL_NOUNS


@dataclass(frozen=True)
class NounOptions:
    """Requirements on a noun phrase.

    Attributes:
        general: whether the noun is ``thing``; None: random.
        avoid: a noun that must not be used.
        without: attribute families that must not be named.
        only: the families (besides the noun) that must be named, and no others.
    """

    general: bool | None = None
    avoid: str | None = None
    without: Collection[str] = ()
    only: Collection[str] | None = None


class NounKeywords(TypedDict, total=False):
    """Keywords of :class:`NounOptions` that every drawing method takes."""

    avoid: str | None
    without: Collection[str]
    only: Collection[str] | None


class Nouns(ABC):
    """Source of a meaning's noun phrases: any words, or those true of one scene.

    Keywords of the three methods are the attributes of :class:`NounOptions`.
    """

    lexicon: Lexicon

    def one(self, *, general: bool | None = False, **wished: Unpack[NounKeywords]) -> str:
        """Draw a kind with exactly one object."""
        return self.draw("one", NounOptions(general=general, **wished))

    def many(self, *, general: bool | None = None, **wished: Unpack[NounKeywords]) -> str:
        """Draw a kind with two or more objects."""
        return self.draw("many", NounOptions(general=general, **wished))

    def some(self, *, general: bool | None = None, **wished: Unpack[NounKeywords]) -> str:
        """Draw a kind with any number of objects, possibly zero."""
        return self.draw("some", NounOptions(general=general, **wished))

    @abstractmethod
    def draw(self, number: Number, wish: NounOptions) -> str:
        """Draw a phrase for that number of objects.

        Raises:
            NoSuchNounError: there is none.
        """


class FreeNouns(Nouns):
    """Random phrases that are true of no particular scene, for training on text alone."""

    def __init__(self, random: Random, lexicon: Lexicon = WORLD, *, held_out: bool = False) -> None:
        self._random, self.lexicon, self._held_out = random, lexicon, held_out

    def draw(self, number: Number, wish: NounOptions) -> str:
        """Draw a phrase; the fewer objects it means, the more attributes it names."""
        share = _NAMED_SHARE[number]
        random, words, general = self._random, self.lexicon, wish.general
        if general is None:
            general = random.random() < 0.25 or "shape" in wish.without
        if general:
            noun = random.choice(GENERAL_NOUNS)
        else:
            noun = random.choice([shape for shape in words.shapes if shape != wish.avoid])
        named = []
        for family, chance in (
            ("size", 0.5 * share),
            ("color", 1.2 * share),
            ("material", 0.7 * share),
        ):
            if wish.only is not None:
                chance = float(family in wish.only)
            if family not in wish.without and random.random() < chance:
                named.append(random.choice(words.family(family)))
        if general and not named and number == "one" and wish.only is None:
            families = [f for f in ("size", "color", "material") if f not in wish.without]
            named.append(random.choice(words.family(random.choice(families))))
        held_back = any((word, noun) in words.held_out for word in named)
        if held_back and not self._held_out:
            return self.draw(number, replace(wish, general=general))
        return " ".join([*named, noun])
