"""General knowledge about the world's shapes, colours, materials and patterns.

None of it is visible: a program must contain the list, or ask a language model for it. Members are
given for the reserved words, too. A debatable word is in no list but in ``doubtful``, so that no
scene with it is part of a query.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from viper_lab.world.reserved import CONCEPTS
from viper_lab.world.vocabulary import COLOURS, MATERIALS, SHAPES

# Pattern of objects without one.
PLAIN = "plain"


@dataclass(frozen=True)
class Fact:
    """A fact about some words of a family.

    Attributes:
        family: ``shape``, ``color``, ``material`` or ``pattern``.
        clause: completes "tag the objects that …".
        request: completes "List at most 20 …" for a language model.
        members: the words for which it holds.
        doubtful: debatable words.
    """

    family: str
    clause: str
    request: str
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
    """Return the world's words of a family, with a reserved one if it is of that family."""
    own = {"colour": "color"}.get(CONCEPTS[concept], CONCEPTS[concept]) if concept else None
    words = _FAMILIES[family]
    return (*words, concept) if concept and own == family else words


def facts_about(concept: str | None) -> tuple[Fact, ...]:
    """Return the facts that hold for some but not all words of the scenes.

    Args:
        concept: reserved concept of the scenes besides the known words, if any; then only facts
            that it decides, by being a member or not.
    """
    facts = []
    for fact in FACTS:
        words = words_of(fact.family, concept)
        decides = concept is None or (concept in words and concept not in fact.doubtful)
        if decides and 0 < len(fact.members & set(words)) < len(words):
            facts.append(fact)
    return tuple(facts)
