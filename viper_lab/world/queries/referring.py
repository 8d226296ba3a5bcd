"""Family 1, referring expressions: show me the object that a phrase denotes."""

from __future__ import annotations

from random import Random

from viper_lab.world.queries.lexicon import Nouns
from viper_lab.world.queries.meaning import SHARES, Meaning
from viper_lab.world.queries.selections import draw_selection, say_selection
from viper_lab.world.queries.wording import read_templates

WEIGHTS = SHARES["referring"]

FRAME = read_templates("referring")["frame"]


def draw_referring(type_: str, nouns: Nouns, random: Random) -> Meaning:
    """A meaning of a type; raises NoSuchNounError as ``draw_selection`` does."""
    return draw_selection(type_, nouns, random)


def say_referring(meaning: Meaning, random: Random, split: str) -> tuple[str, str]:
    """Template name and text of a query for the object itself."""
    frame_name, frame = FRAME.pick(random, split)
    phrase_name, phrase = say_selection(meaning, random, split)
    text = frame.format(np=phrase, terse=phrase.removeprefix("the "))
    return f"{meaning.type}:{frame_name}:{phrase_name}", text
