"""What is generally known of the world's shapes, colours, materials and patterns.

None of it can be seen: a program has to know the list, or ask a language model for it. Members are
given for the reserved words, too; a word of which one could argue stands in no list and is said in
``doubtful``, so that no scene with it is asked about.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def _fact(family: str, said: str, asked: str, members: str, doubtful: str = "") -> Fact:
    return Fact(family, said, asked, frozenset(members.split()), frozenset(doubtful.split()))


FACTS: tuple[Fact, ...] = (
    _fact("shape", "have no flat face", "shapes that have no flat face", "ball ring egg"),
    _fact("shape", "end in a point", "shapes that end in a point", "cone pyramid"),
    _fact("shape", "have corners", "shapes that have corners", "cube pyramid plank", "cone"),
    _fact(
        "shape",
        "have flat faces only",
        "shapes whose faces are all flat",
        "cube pyramid plank",
    ),
    _fact("shape", "have a hole in the middle", "shapes with a hole in the middle", "ring"),
    _fact(
        "shape",
        "have at least one flat face",
        "shapes that have at least one flat face",
        "cube cylinder cone pyramid disc plank dome",
    ),
    _fact(
        "shape",
        "have a curved surface",
        "shapes that have a curved surface",
        "ball cylinder cone ring egg disc dome",
    ),
    _fact(
        "shape",
        "could carry another object on top",
        "shapes with a flat top",
        "cube cylinder disc plank",
        "ring",
    ),
    _fact(
        "color",
        "have a color of the warm half of the rainbow",
        "colors of the warm half of the rainbow",
        "red orange yellow",
        "pink brown",
    ),
    _fact(
        "color",
        "have a color of the cool half of the rainbow",
        "colors of the cool half of the rainbow",
        "green cyan blue purple",
    ),
    _fact(
        "color",
        "have a color that no rainbow has",
        "colors that no rainbow has",
        "brown gray white black pink",
    ),
    _fact("color", "have a color of traffic lights", "colors of traffic lights",
          "red yellow green", "orange white"),
    _fact("color", "have one of the painter's primary colors", "primary colors of a painter",
          "red yellow blue"),
    _fact("color", "have the color of leaves in spring or of the sky at noon",
          "colors of spring leaves and of the sky at noon", "green blue", "cyan white"),
    _fact("color", "have a color that is only more or less light",
          "colors without a hue, which are only more or less light", "gray white black"),
    _fact("color", "have a color that is named after a fruit or a flower",
          "colors named after a fruit or a flower", "orange pink", "purple"),
    _fact("material", "conduct electricity", "materials that conduct electricity", "metal"),
    _fact("material", "would bounce off the floor", "materials that bounce", "rubber"),
    _fact("material", "ring when you strike them", "materials that ring when struck", "metal"),
    _fact("pattern", "look like the coat of a zebra", "patterns of a zebra's coat", "striped"),
    _fact("pattern", "look like the coat of a leopard", "patterns of a leopard's coat", "spotted"),
    _fact("pattern", "look like a chess board", "patterns of a chess board", "checkered"),
    _fact("pattern", "have a pattern of more than one shade", "patterns of more than one shade",
          "striped spotted checkered"),
)  # fmt: skip

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
