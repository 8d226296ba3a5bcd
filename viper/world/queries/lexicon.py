"""The nouns of a query: which words there are, and how phrases are drawn from them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Protocol

from viper.world.vocabulary import COLOURS, HELD_OUT_COMBINATIONS, MATERIALS, SHAPES, SIZES

GENERAL_NOUNS = ("thing", "object")

FAMILIES = ("size", "color", "material", "shape")
"""Attribute families in the order in which a phrase names them."""


class NoSuchNounError(Exception):
    """This scene has no phrase of the wanted sort; draw another meaning or scene."""


@dataclass(frozen=True)
class Lexicon:
    """The words of each attribute family. Replace them to make up a language of one's own."""

    sizes: tuple[str, ...] = SIZES
    colors: tuple[str, ...] = COLOURS
    materials: tuple[str, ...] = MATERIALS
    shapes: tuple[str, ...] = SHAPES
    held_out: frozenset[tuple[str, str]] = HELD_OUT_COMBINATIONS

    def family(self, name: str) -> tuple[str, ...]:
        """The words of ``size``, ``color``, ``material`` or ``shape``."""
        return {
            "size": self.sizes,
            "color": self.colors,
            "material": self.materials,
            "shape": self.shapes,
        }[name]


WORLD = Lexicon()


def head(kind: str) -> str:
    """The noun of a kind: ``cube`` of ``red cube``."""
    return kind.rsplit(" ", 1)[-1]


def is_general(kind: str) -> bool:
    """Whether the noun says nothing of the shape (``red thing``)."""
    return head(kind) in GENERAL_NOUNS


class Nouns(Protocol):
    """Where a meaning takes its noun phrases from: any words, or those true of one scene."""

    lexicon: Lexicon

    def one(
        self,
        *,
        general: bool | None = False,
        avoid: str | None = None,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> str:
        """A kind with exactly one object.

        Args:
            general: whether the noun is ``thing``; None leaves it to chance.
            avoid: a noun that must not be used.
            without: attribute families that must not be named.
            only: the families (besides the noun) that must be named, and no others.
        """
        ...

    def many(
        self,
        *,
        general: bool | None = None,
        avoid: str | None = None,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> str:
        """A kind with two or more objects; parameters as in :meth:`one`."""
        ...

    def some(
        self,
        *,
        general: bool | None = None,
        avoid: str | None = None,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> str:
        """A kind with any number of objects, none included; parameters as in :meth:`one`."""
        ...


class FreeNouns:
    """Phrases drawn at random, true of no scene in particular: for training on text alone."""

    def __init__(self, random: Random, lexicon: Lexicon = WORLD, *, held_out: bool = False) -> None:
        self._random, self.lexicon, self._held_out = random, lexicon, held_out

    def one(
        self,
        *,
        general: bool | None = False,
        avoid: str | None = None,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> str:
        return self._draw(0.5, general, avoid, without, only, bare_general=False)

    def many(
        self,
        *,
        general: bool | None = None,
        avoid: str | None = None,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> str:
        return self._draw(0.25, general, avoid, without, only, bare_general=True)

    def some(
        self,
        *,
        general: bool | None = None,
        avoid: str | None = None,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> str:
        return self._draw(0.4, general, avoid, without, only, bare_general=True)

    def _draw(
        self,
        share: float,
        general: bool | None,
        avoid: str | None,
        without: Collection[str],
        only: Collection[str] | None,
        *,
        bare_general: bool,
    ) -> str:
        random, words = self._random, self.lexicon
        if general is None:
            general = random.random() < 0.25 or "shape" in without
        if general:
            noun = random.choice(GENERAL_NOUNS)
        else:
            noun = random.choice([shape for shape in words.shapes if shape != avoid])
        named = []
        for family, chance in (
            ("size", 0.5 * share),
            ("color", 1.2 * share),
            ("material", 0.7 * share),
        ):
            if only is not None:
                chance = float(family in only)
            if family not in without and random.random() < chance:
                named.append(random.choice(words.family(family)))
        if general and not named and not bare_general and only is None:
            family = random.choice([f for f in ("size", "color", "material") if f not in without])
            named.append(random.choice(words.family(family)))
        held_back = any((word, noun) in words.held_out for word in named)
        if held_back and not self._held_out:
            return self._draw(share, general, avoid, without, only, bare_general=bare_general)
        return " ".join([*named, noun])
