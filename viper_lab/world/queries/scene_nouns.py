"""Noun phrases that are true of one scene, for queries about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, combinations
from random import Random

from viper_lab.world.queries.lexicon import (
    GENERAL_NOUNS,
    WORLD,
    FreeNouns,
    Lexicon,
    NoSuchNounError,
    Nouns,
    Number,
    Wish,
    head,
)
from viper_lab.world.queries.scene_words import SceneWords

_ADJECTIVES = ("size", "color", "material")
_SUBSETS = tuple(chain.from_iterable(combinations(_ADJECTIVES, n) for n in range(4)))

_FITS: Mapping[Number, Callable[[int], bool]] = {
    "one": lambda count: count == 1,
    "many": lambda count: count >= 2,
    "some": lambda count: count >= 1,
}

_ABSENT_SHARE = 0.3
"""How often a kind of any number is drawn from all words rather than from the scene's."""


class SceneNouns(Nouns):
    """Phrases that are true of one scene.

    Shorter phrases are likelier. Phrases that fit no object come up for ``some`` only.
    """

    lexicon: Lexicon = WORLD

    def __init__(self, truth: SceneWords, random: Random, *, held_out: bool) -> None:
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

    def draw(self, number: Number, wish: Wish) -> str:
        """A phrase that so many objects of the scene fit."""
        if number == "some" and self._random.random() < _ABSENT_SHARE:
            return self._free.draw(number, wish)
        general = wish.general
        if general is None:
            general = self._random.random() < 0.25 or "shape" in wish.without
        noun = self._random.choice(GENERAL_NOUNS) if general else None
        fitting = self._fitting(number, wish, noun)
        if not fitting:
            raise NoSuchNounError
        weights = [0.45 ** len(self._families[phrase]) for phrase in fitting]
        return self._random.choices(fitting, weights)[0]

    def _fitting(self, number: Number, wish: Wish, noun: str | None) -> list[str]:
        """The scene's phrases that so many objects fit; ``noun`` is the general one, if any."""
        excluded = (wish.avoid, *GENERAL_NOUNS)
        return [
            phrase
            for phrase, families in self._families.items()
            if _FITS[number](self._counts[phrase])
            and (head(phrase) == noun if noun else head(phrase) not in excluded)
            and not any(family in wish.without for family in families)
            and (wish.only is None or set(families) == set(wish.only))
        ]
