"""What is generally known of the world's shapes, colours, materials and patterns.

None of it can be seen: a program has to know the list, or ask a language model for it. Members are
given for the reserved words, too; a word of which one could argue stands in no list and is said in
``doubtful``, so that no scene with it is asked about.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from viper_lab.world.reserved import CONCEPTS
from viper_lab.world.vocabulary import COLOURS, MATERIALS, SHAPES

PLAIN = "plain"
"""The pattern of objects without one."""


@dataclass(frozen=True)
class Fact:
    """Something that holds of some words of a family.

    Attributes:
        family: ``shape``, ``color``, ``material`` or ``pattern``.
        said: completes "tag the objects that …".
        asked: completes "List at most 20 …" for a language model.
        members: the words of which it holds.
        doubtful: those of which one could argue.
    """

    family: str
    said: str
    asked: str
    members: frozenset[str]
    doubtful: frozenset[str] = frozenset()


FACTS: tuple[Fact, ...] = tuple(
    Fact(
        family,
        fact["said"],
        fact["asked"],
        frozenset(fact["members"]),
        frozenset(fact.get("doubtful", ())),
    )
    for family, facts in tomllib.loads(
        Path(__file__).with_name("facts.toml").read_text("utf-8")
    ).items()
    for fact in facts
)

_FAMILIES: dict[str, tuple[str, ...]] = {
    "shape": SHAPES,
    "color": COLOURS,
    "material": MATERIALS,
    "pattern": (PLAIN,),
}


def words_of(family: str, concept: str | None = None) -> tuple[str, ...]:
    """The world's words of a family, with a reserved one if it is of that family."""
    own = {"colour": "color"}.get(CONCEPTS[concept], CONCEPTS[concept]) if concept else None
    known = _FAMILIES[family]
    return (*known, concept) if concept and own == family else known


def facts_about(concept: str | None) -> tuple[Fact, ...]:
    """The facts that hold of some words, but not all, that scenes show.

    Args:
        concept: reserved one that scenes show beside the known words, if any; then facts that
            tell it, by holding of it or by not holding of it.
    """
    found = []
    for fact in FACTS:
        words = words_of(fact.family, concept)
        told = concept is None or (concept in words and concept not in fact.doubtful)
        if told and 0 < len(fact.members & set(words)) < len(words):
            found.append(fact)
    return tuple(found)
