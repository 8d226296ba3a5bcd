"""Facts of a catalogue and their wording in questions and in texts.

A relation leads from a thing to a name or a number. A chain of relations is a question with as many
hops.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from viper_lab.world.knowledge.catalogue import Catalogue


@dataclass(frozen=True)
class Relation:
    """One kind of fact.

    Attributes:
        of: ``design``, ``maker``, ``place`` or ``work``.
        leads_to: the kind of thing that it leads to; "" if it ends a chain.
        question: asks for it about ``#``.
        noun: names it within another question, ``the maker of #``.
        statements: sentences of texts; ``#`` is the thing, ``*`` the fact's value.
        wording: a reader's wording of such a sentence.
    """

    of: str
    question: str
    statements: Sequence[str]
    wording: str
    leads_to: str = ""
    noun: str = ""


_FACTS = tomllib.loads(Path(__file__).with_name("facts.toml").read_text("utf-8"))

RELATIONS: Mapping[str, Relation] = {
    name: Relation(**relation) for name, relation in _FACTS["relations"].items()
}

# Chains of questions about a design: one to three hops.
CHAINS: Sequence[tuple[str, ...]] = [tuple(chain) for chain in _FACTS["asked"]["chains"]]


def value_of(catalogue: Catalogue, thing: str, relation: str) -> str:
    """Return the value of a thing's relation, by their names."""
    entries = catalogue.entries[RELATIONS[relation].of]
    entry = next(entry for entry in entries if entry.name == thing)
    field = {"town": "place"}.get(relation, relation)
    return str(getattr(entry, field))


# Common knowledge about shapes, which is in no text.
COMMON: Mapping[str, Mapping[str, str]] = _FACTS["common"]

# Sentences of articles beside facts: ``filling``, ``gossip`` and ``colour_words``.
SAID_BESIDE: Mapping[str, Sequence[str]] = _FACTS["articles"]


def follow(catalogue: Catalogue, thing: str, chain: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return thing, relation and value of each hop from a design on."""
    path = []
    for relation in chain:
        value = value_of(catalogue, thing, relation)
        path.append((thing, relation, value))
        thing = value
    return path


def question_of(chain: Sequence[str], about: str) -> str:
    """Return the question of a chain about a thing."""
    named = about
    for relation in chain[:-1]:
        named = RELATIONS[relation].noun.replace("#", named)
    return RELATIONS[chain[-1]].question.replace("#", named)


def fact_text(relation: str, thing: str, value: str) -> str:
    """Return a reader's wording of a fact."""
    return RELATIONS[relation].wording.replace("#", thing).replace("*", value)
