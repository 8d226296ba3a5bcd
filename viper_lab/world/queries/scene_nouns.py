"""Noun phrases that are true of one scene, for queries about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from random import Random

from viper_lab.world.queries.lexicon import (
    GENERAL_NOUNS,
    WORLD,
    FreeNouns,
    Lexicon,
    NoSuchNounError,
    NounOptions,
    Nouns,
    Number,
    head,
)
from viper_lab.world.reserved import CONCEPTS
from viper_lab.world.scene import Scene, SceneObject
from viper_lab.world.vocabulary import SHAPES

_ADJECTIVES = ("size", "color", "material")
_SUBSETS = tuple(chain.from_iterable(combinations(_ADJECTIVES, n) for n in range(4)))

_FITS: Mapping[Number, Callable[[int], bool]] = {
    "one": lambda count: count == 1,
    "many": lambda count: count >= 2,
    "some": lambda count: count >= 1,
}

# Share of kinds of any number that are drawn from all words instead of the scene's.
_ABSENT_SHARE = 0.3


class SceneNouns(Nouns):
    """Phrases that are true of one scene.

    Shorter phrases are likelier. Phrases that fit no object occur for ``some`` only.
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

    def draw(self, number: Number, wish: NounOptions) -> str:
        """Draw a phrase for that number of objects of the scene."""
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

    def _fitting(self, number: Number, wish: NounOptions, noun: str | None) -> list[str]:
        """Return the scene's phrases for that number of objects; ``noun`` is the general noun."""
        excluded = (wish.avoid, *GENERAL_NOUNS)
        return [
            phrase
            for phrase, families in self._families.items()
            if _FITS[number](self._counts[phrase])
            and (head(phrase) == noun if noun else head(phrase) not in excluded)
            and not any(family in wish.without for family in families)
            and (wish.only is None or set(families) == set(wish.only))
        ]


def attribute_words(thing: SceneObject) -> dict[str, str]:
    """Return the object's word of each attribute family; ``pattern`` only if it has one."""
    words = {
        "size": thing.size,
        "color": thing.colour,
        "material": thing.material,
        "shape": thing.shape,
    }
    return {**words, "pattern": thing.pattern} if thing.pattern else words


class SceneWords:
    """The words of one scene's objects, by index.

    Attributes:
        words: per object, attribute family to its word.
    """

    def __init__(self, scene: Scene) -> None:
        self.words = [attribute_words(thing) for thing in scene.objects]

    def matching(self, kind: str) -> list[int]:
        """Return the indexes of the objects that a kind names."""
        required = [word for word in kind.split() if word not in GENERAL_NOUNS]
        return [
            index
            for index, words in enumerate(self.words)
            if all(word in words.values() for word in required)
        ]


# Attributes that a phrase may state beside a pattern.
_EXTRA = ((), ("size",), ("color",), ("material",))


# Share of kinds that describe an object of the scene.
_LIKE_SHOWN = 0.75


class ReservedNouns(SceneNouns):
    """Phrases about a scene of a concept.

    Args:
        concept: concept of the scene.
        share: how often a fitting phrase that names it is preferred; 0 never names it.

    Attributes:
        shapes_shown: the shapes of the scene's objects.
    """

    def __init__(
        self, truth: SceneWords, random: Random, concept: str, *, share: float, held_out: bool
    ) -> None:
        super().__init__(truth, random, held_out=held_out)
        self.lexicon = lexicon_with(concept)
        self._concept, self._share = concept, share
        self.shapes_shown = tuple(dict.fromkeys(words["shape"] for words in truth.words))
        for words in truth.words:
            if "pattern" not in words:
                continue
            for families in _EXTRA:
                named = {family: words[family] for family in families}
                adjectives = [named.get("size"), words["pattern"], named.get("color")]
                for noun in (words["shape"], *GENERAL_NOUNS):
                    phrase = " ".join(filter(None, [*adjectives, named.get("material"), noun]))
                    self._families[phrase] = (*families, "pattern")
                    self._counts[phrase] = len(truth.matching(phrase))

    def _fitting(self, number: Number, wish: NounOptions, noun: str | None) -> list[str]:
        fitting = super()._fitting(number, wish, noun)
        named = [phrase for phrase in fitting if self._concept in phrase.split()]
        if self._share == 0:
            return [phrase for phrase in fitting if phrase not in named]
        return named if named and self._random.random() < self._share else fitting


def lexicon_with(concept: str) -> Lexicon:
    """Return the world's words and a reserved one; patterns are no family of the lexicon."""
    family = CONCEPTS[concept]
    if family == "shape":
        return replace(WORLD, shapes=(*WORLD.shapes, concept))
    if family == "colour":
        return replace(WORLD, colors=(*WORLD.colors, concept))
    return WORLD


def concept_kind(concept: str, truths: Sequence[SceneWords], random: Random) -> str:
    """Draw a kind of the concept and at most one more attribute, mostly one of a scene."""
    showing = [words for truth in truths for words in truth.words if concept in words.values()]
    like = random.choice(showing) if showing and random.random() < _LIKE_SHOWN else None
    if CONCEPTS[concept] != "shape":
        noun = like["shape"] if like else random.choice(SHAPES)
        return f"{concept} {random.choice(('object', noun))}"
    family = random.choice((None, None, "color", "material"))
    if family is None:
        return concept
    return f"{like[family] if like else random.choice(WORLD.family(family))} {concept}"
