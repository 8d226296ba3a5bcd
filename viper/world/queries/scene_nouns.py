"""Noun phrases that are true of one scene, for queries about it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import chain, combinations
from random import Random

from viper.world.queries.lexicon import (
    GENERAL_NOUNS,
    WORLD,
    FreeNouns,
    Lexicon,
    NoSuchNounError,
    head,
)
from viper.world.queries.truth import SceneTruth

_ADJECTIVES = ("size", "color", "material")
_SUBSETS = tuple(chain.from_iterable(combinations(_ADJECTIVES, n) for n in range(4)))

_ABSENT_SHARE = 0.3
"""How often a kind of any number is drawn from all words rather than from the scene's."""


class SceneNouns:
    """Implements :class:`~viper.world.queries.lexicon.Nouns` for a scene.

    Shorter phrases are likelier. Phrases that fit no object come up for ``some`` only.
    """

    lexicon: Lexicon = WORLD

    def __init__(self, truth: SceneTruth, random: Random, *, held_out: bool) -> None:
        self._truth, self._random = truth, random
        self._free = FreeNouns(random, held_out=held_out)
        self._counts: dict[str, int] = {}
        self._families: dict[str, tuple[str, ...]] = {}
        for words in truth.words:
            for families in _SUBSETS:
                named = [words[family] for family in families]
                for noun in (words["shape"], *GENERAL_NOUNS):
                    phrase = " ".join([*named, noun])
                    self._families[phrase] = families
        for phrase in self._families:
            self._counts[phrase] = len(truth.matching(phrase))

    def one(
        self,
        *,
        general: bool | None = False,
        avoid: str | None = None,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> str:
        return self._draw(lambda count: count == 1, general, avoid, without, only)

    def many(
        self,
        *,
        general: bool | None = None,
        avoid: str | None = None,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> str:
        return self._draw(lambda count: count >= 2, general, avoid, without, only)

    def some(
        self,
        *,
        general: bool | None = None,
        avoid: str | None = None,
        without: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> str:
        if self._random.random() < _ABSENT_SHARE:
            return self._free.some(general=general, avoid=avoid, without=without, only=only)
        return self._draw(lambda count: count >= 1, general, avoid, without, only)

    def _draw(
        self,
        wanted: Callable[[int], bool],
        general: bool | None,
        avoid: str | None,
        without: Collection[str],
        only: Collection[str] | None,
    ) -> str:
        if general is None:
            general = self._random.random() < 0.25 or "shape" in without
        noun = self._random.choice(GENERAL_NOUNS) if general else None
        fitting = [
            phrase
            for phrase, families in self._families.items()
            if wanted(self._counts[phrase])
            and (head(phrase) == noun if general else head(phrase) not in (avoid, *GENERAL_NOUNS))
            and not any(family in without for family in families)
            and (only is None or set(families) == set(only))
        ]
        if not fitting:
            raise NoSuchNounError
        weights = [0.45 ** len(self._families[phrase]) for phrase in fitting]
        return self._random.choices(fitting, weights)[0]
