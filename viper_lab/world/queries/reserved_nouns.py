"""Noun phrases that are true of a scene about a reserved concept, those that name it first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from viper_lab.world.queries.lexicon import GENERAL_NOUNS, WORLD, Lexicon, Number, Wish
from viper_lab.world.queries.scene_nouns import SceneNouns
from viper_lab.world.queries.scene_words import SceneWords
from viper_lab.world.reserved import CONCEPTS
from viper_lab.world.vocabulary import SHAPES

_EXTRA = ((), ("size",), ("color",), ("material",))
"""What a phrase may say beside a pattern."""


_LIKE_SHOWN = 0.75
"""How often a kind is that of an object which is there."""


class ReservedNouns(SceneNouns):
    """Phrases about a scene of a concept.

    Args:
        concept: what the scene is about.
        share: how often a phrase that names it is preferred, where one fits; 0 never names it.

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
                said = [named.get("size"), words["pattern"], named.get("color")]
                for noun in (words["shape"], *GENERAL_NOUNS):
                    phrase = " ".join(filter(None, [*said, named.get("material"), noun]))
                    self._families[phrase] = (*families, "pattern")
                    self._counts[phrase] = len(truth.matching(phrase))

    def _fitting(self, number: Number, wish: Wish, noun: str | None) -> list[str]:
        fitting = super()._fitting(number, wish, noun)
        named = [phrase for phrase in fitting if self._concept in phrase.split()]
        if self._share == 0:
            return [phrase for phrase in fitting if phrase not in named]
        return named if named and self._random.random() < self._share else fitting


def lexicon_with(concept: str) -> Lexicon:
    """The world's words and a reserved one; patterns are no family of the lexicon's."""
    family = CONCEPTS[concept]
    if family == "shape":
        return replace(WORLD, shapes=(*WORLD.shapes, concept))
    if family == "colour":
        return replace(WORLD, colors=(*WORLD.colors, concept))
    return WORLD


def concept_kind(concept: str, truths: Sequence[SceneWords], random: Random) -> str:
    """A kind that names a concept and one thing more at most, mostly one that a scene shows."""
    shown = [words for truth in truths for words in truth.words if concept in words.values()]
    like = random.choice(shown) if shown and random.random() < _LIKE_SHOWN else None
    if CONCEPTS[concept] != "shape":
        noun = like["shape"] if like else random.choice(SHAPES)
        return f"{concept} {random.choice(('object', noun))}"
    family = random.choice((None, None, "color", "material"))
    if family is None:
        return concept
    return f"{like[family] if like else random.choice(WORLD.family(family))} {concept}"
