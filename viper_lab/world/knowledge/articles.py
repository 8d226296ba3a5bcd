"""The texts of a catalogue: short articles, some of them about other things with similar names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from random import Random

from viper_lab.world.knowledge.catalogue import Catalogue
from viper_lab.world.knowledge.facts import RELATIONS, SAID_BESIDE, value_of

# Share of the facts in no text; questions about them have no answer.
LEFT_OUT = 0.1


@dataclass(frozen=True)
class Article:
    """A text. ``about`` names the thing whose facts it states, or is ""."""

    title: str
    text: str
    about: str = ""


def things(catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """Yield kind and name of everything that has facts."""
    for kind, entries in catalogue.entries.items():
        for entry in entries:
            yield kind, entry.name


def left_out(catalogue: Catalogue, share: float = LEFT_OUT) -> frozenset[tuple[str, str]]:
    """Return thing and relation of the facts in no text; they end a chain, and none leads on."""
    random = Random(f"left out {catalogue.split} {catalogue.seed}")
    return frozenset(
        (name, relation)
        for kind, name in things(catalogue)
        for relation, traits in RELATIONS.items()
        if traits.of == kind and not traits.leads_to and random.random() < share
    )


def articles(
    catalogue: Catalogue, untold: Collection[tuple[str, str]] = frozenset(), gossip: int = 60
) -> list[Article]:
    """Return the texts of a catalogue, in no order.

    Args:
        untold: thing and relation of facts to leave out.
        gossip: number of texts that name things without facts.
    """
    random = Random(f"articles {catalogue.split} {catalogue.seed}")
    texts = [_article(catalogue, kind, name, untold, random) for kind, name in things(catalogue)]
    for (place, colour), word in catalogue.colour_words.items():
        text = random.choice(SAID_BESIDE["colour_words"]).replace("#", colour).replace("*", word)
        texts.append(Article(f"the words of {place}", text.replace("@", place), place))
    names = [name for _, name in things(catalogue)]
    for _ in range(gossip):
        thing, other = random.sample(names, 2)
        text = random.choice(SAID_BESIDE["gossip"]).replace("#", thing).replace("*", other)
        texts.append(
            Article(f"{thing} and {other}", f"{text} {random.choice(SAID_BESIDE['filling'])}")
        )
    random.shuffle(texts)
    return texts


def _article(
    catalogue: Catalogue, kind: str, name: str, untold: Collection[tuple[str, str]], random: Random
) -> Article:
    sentences = [
        random.choice(traits.statements)
        .replace("#", name)
        .replace("*", value_of(catalogue, name, relation))
        for relation, traits in RELATIONS.items()
        if traits.of == kind and (name, relation) not in untold
    ]
    if kind == "design" and catalogue.design(name).mark:
        sentences.append(f"{name} bears the mark {catalogue.design(name).mark}.")
    random.shuffle(sentences)
    sentences.insert(random.randint(0, len(sentences)), random.choice(SAID_BESIDE["filling"]))
    return Article(name, " ".join(sentences), name)
