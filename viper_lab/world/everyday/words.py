"""Words of everyday questions: synonyms of the world's own words.

The tools of the ``embedded`` profile understand all of them (``[tools.synonyms]``); the writer
trains on those that are not held out, so that a held-out synonym has to be copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from viper.profiles.files import read_profile
from viper.tools.settings import ToolSettings
from viper_lab.world.vocabulary import COLOURS, HELD_OUT_COMBINATIONS, MATERIALS, SHAPES, SIZES

# Synonyms that no training question holds.
HELD_OUT = frozenset(
    {"orb", "globe", "crate", "dice", "pipe", "pillar", "hoop", "lilac", "emerald", "scarlet",
     "chrome", "metallic", "plastic", "massive", "mini", "funnel"}
)  # fmt: skip


# Synonyms that the tools know but that no drawn phrase holds.
NO_NOUNS = frozenset(
    {"round", "spherical", "cubic", "square", "conical", "cylindrical", "circle", "bigger",
     "biggest", "larger", "smaller", "smallest", "can", "reddish", "greenish", "bluish",
     "yellowish", "brownish", "greyish"}
)  # fmt: skip


@dataclass(frozen=True)
class Words:
    """Words by family; ``general`` names anything."""

    size: tuple[str, ...]
    color: tuple[str, ...]
    material: tuple[str, ...]
    shape: tuple[str, ...]
    general: tuple[str, ...] = ("thing", "object", "thing", "object", "item", "shape", "solid")


@cache
def _tools() -> ToolSettings:
    return read_profile("embedded").tools


def in_world_words(text: str) -> str:
    """Return a text with every synonym replaced by the world's own word."""
    return _tools().in_models_words(text)


@cache
def world_words(*, held_out: bool = False) -> Words:
    """Return the world's words with the synonyms for training, or the held-out ones alone.

    Each word of the world is as frequent as all its synonyms together.
    """
    table = _tools().synonyms

    def family(names: tuple[str, ...]) -> tuple[str, ...]:
        words: list[str] = []
        for name in names:
            others = [w for w in table.get(name, ()) if (w in HELD_OUT) == held_out]
            others = [w for w in others if w not in NO_NOUNS]
            words += others if held_out else [name] * max(1, len(others)) + others
        return tuple(words)

    sizes, colors, materials, shapes = map(family, (SIZES, COLOURS, MATERIALS, SHAPES))
    if held_out:  # a family without held-out words keeps its own
        usual = world_words()
        return Words(sizes or usual.size, colors or usual.color, materials, shapes)
    return Words(sizes, colors, materials, shapes)


def is_held_out(name: str) -> bool:
    """Return whether a name, ``scarlet cone``, is a pair of words that training leaves out."""
    return tuple(in_world_words(name).split()) in HELD_OUT_COMBINATIONS
