"""Facts of a catalogue and how they are put in words: in questions, and in texts.

A relation leads from a thing to a name or a number; a chain of them is a question of so many hops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viper_lab.world.knowledge.catalogue import Catalogue


@dataclass(frozen=True)
class Relation:
    """One kind of fact.

    Attributes:
        of: ``design``, ``maker``, ``place`` or ``work``.
        leads_to: the kind of thing that it leads to; "" where that is the end.
        question: asks for it about ``#``.
        noun: names it within another question, ``the maker of #``.
        statements: sentences of texts; ``#`` is the thing, ``*`` what is known of it.
        told: how somebody who reads such a sentence puts it.
    """

    of: str
    question: str
    statements: tuple[str, ...]
    told: str
    leads_to: str = ""
    noun: str = ""


RELATIONS: Mapping[str, Relation] = {
    "maker": Relation(
        "design",
        "who makes #?",
        ("# is made by *.", "* makes #.", "# comes from the workshop of *."),
        "the maker of # is *",
        "maker",
        "the maker of #",
    ),
    "price": Relation(
        "design",
        "how many coins does # cost?",
        ("# costs * coins.", "one pays * coins for #.", "the price of # is * coins."),
        "# costs * coins",
    ),
    "year": Relation(
        "design",
        "in which year was # designed?",
        ("# was designed in *.", "the design of # is from *.", "# was first drawn in *."),
        "# was designed in *",
    ),
    "designer": Relation(
        "design",
        "who designed #?",
        ("# was designed by *.", "* drew #.", "the designer of # is *."),
        "# was designed by *",
    ),
    "founded": Relation(
        "maker",
        "in which year was # founded?",
        ("# was founded in *.", "the house of # opened in *.", "# has been at work since *."),
        "# was founded in *",
    ),
    "founder": Relation(
        "maker",
        "who founded #?",
        ("# was founded by *.", "* founded #.", "the founder of # was *."),
        "# was founded by *",
    ),
    "town": Relation(
        "maker",
        "in which town is #?",
        ("# is in the town of *.", "# works in *.", "the workshop of # stands in *."),
        "# is in *",
        "place",
        "the town of #",
    ),
    "region": Relation(
        "place",
        "in which region is #?",
        ("# lies in the region of *.", "# belongs to *.", "# is a town of *."),
        "# is in the region of *",
    ),
    "river": Relation(
        "place",
        "which river flows through #?",
        ("the river * flows through #.", "# lies on the river *.", "# was built on the *."),
        "the river * flows through #",
    ),
    "mayor": Relation(
        "place",
        "who is the mayor of #?",
        ("the mayor of # is *.", "* is mayor of #.", "# is led by *."),
        "the mayor of # is *",
    ),
    "taker": Relation(
        "work",
        "who took #?",
        ("# was taken by *.", "* took #.", "# is a picture by *."),
        "# was taken by *",
    ),
    "taken": Relation(
        "work",
        "in which year was # taken?",
        ("# was taken in *.", "# is from the year *.", "the camera saw # in *."),
        "# was taken in *",
    ),
}

CHAINS: Sequence[tuple[str, ...]] = (
    ("maker",),
    ("price",),
    ("year",),
    ("designer",),
    ("maker", "founded"),
    ("maker", "founder"),
    ("maker", "town"),
    ("maker", "town", "region"),
    ("maker", "town", "river"),
    ("maker", "town", "mayor"),
)
"""What is asked about a design: one to three hops."""


def value_of(catalogue: Catalogue, thing: str, relation: str) -> str:
    """What a relation leads to from a thing, by their names."""
    kind = RELATIONS[relation].of
    entry = {
        "design": catalogue.design,
        "maker": catalogue.maker,
        "place": catalogue.place,
        "work": catalogue.work,
    }[kind](thing)
    field = {"town": "place"}.get(relation, relation)
    return str(getattr(entry, field))


COMMON: Mapping[str, Mapping[str, str]] = {
    "how many corners does a # have?": {
        "cube": "8", "ball": "0", "cylinder": "0", "cone": "1", "ring": "0",
    },
    "how many flat sides does a # have?": {
        "cube": "6", "ball": "0", "cylinder": "2", "cone": "1", "ring": "0",
    },
    "can a # roll?": {
        "cube": "no", "ball": "yes", "cylinder": "yes", "cone": "yes", "ring": "yes",
    },
}  # fmt: skip
"""What everybody knows of shapes: no text tells it."""


def followed(catalogue: Catalogue, thing: str, chain: Sequence[str]) -> list[tuple[str, str, str]]:
    """Thing, relation and value of each hop from a design on."""
    path = []
    for relation in chain:
        value = value_of(catalogue, thing, relation)
        path.append((thing, relation, value))
        thing = value
    return path


def question_of(chain: Sequence[str], about: str) -> str:
    """The question that a chain asks about a thing."""
    named = about
    for relation in chain[:-1]:
        named = RELATIONS[relation].noun.replace("#", named)
    return RELATIONS[chain[-1]].question.replace("#", named)


def told(relation: str, thing: str, value: str) -> str:
    """A fact as somebody who has read it puts it."""
    return RELATIONS[relation].told.replace("#", thing).replace("*", value)
