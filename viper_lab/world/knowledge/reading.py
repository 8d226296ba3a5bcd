"""Single verdicts about findings, the hardest decisions of a search to learn.

Each is the reply of :class:`viper_lab.world.knowledge.simulate.Expert`. Findings of texts are the
sentence with one hop of a question, another sentence of the same passage, or one of another passage
that a search finds. Findings of pictures are notes under a picture of the same look, also if a
label distinguishes it from others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from viper.models.llm.messages import as_text
from viper.prompting.seeking import Decision, judge_prompt, parts_of
from viper.strategies.seek.actions import MAX_PASSAGES
from viper_lab.world.knowledge.catalogue import Look
from viper_lab.world.knowledge.facts import CHAINS, RELATIONS, fact_text, follow, question_of
from viper_lab.world.knowledge.simulate import END, STYLE, ExpertReply, Library, lines_of_note

_PICTURES, _LABELLED = 0.25, 0.4
# Probabilities that a sentence states the requested fact, or is another one beside it.
_TELLING, _BESIDE = 0.5, 0.3

_COLOURS, _WORKS = 0.12, 0.12

# Probability of redrawing a fact until its text has the answer before the thing, as "keet makes
# thenet", which is hardest to read; and the maximum number of draws.
_BACKWARD, _TRIES = 0.5, 8


@dataclass(frozen=True)
class _Fact:
    """One hop of a question, with the sentences that would state it."""

    query: str
    known: tuple[str, ...]
    words: str
    sentences: frozenset[str]
    value: str
    verdict: str


def readings(library: Library, count: int, random: Random) -> Iterator[ExpertReply]:
    """Yield ``count`` verdicts about texts of a catalogue."""
    corpus = " ".join(text.text for text in library.texts)
    for _ in range(count):
        if random.random() < _PICTURES:
            yield _naming(library, random)
            continue
        fact = _fact(library, random)
        if random.random() < _BACKWARD:
            for _ in range(_TRIES):
                if _is_backward(fact, corpus):
                    break
                fact = _fact(library, random)
        yield _reading(library, fact, random)


def _is_backward(fact: _Fact, corpus: str) -> bool:
    return any(
        sentence.startswith(fact.value) and sentence in corpus for sentence in fact.sentences
    )


def _fact(library: Library, random: Random) -> _Fact:
    catalogue, kind = library.catalogue, random.random()
    if kind < _COLOURS:
        (town, colour), word = random.choice(sorted(catalogue.colour_words.items()))
        query = f"what do people of {town} call {colour}?"
        context = (
            f"what color is the {_phrase(random.choice(catalogue.designs).look, random)}: {colour}"
        )
        words = re.compile(rf"\b{colour}\b")  # the mayor may be called gredy
        texts = [each.text for each in library.texts if each.about == town]
        tells = frozenset(text for text in texts if words.search(text))
        return _Fact(query, (context,), query, tells, word, f"answer: {word}")
    is_work = kind < _COLOURS + _WORKS
    entries = catalogue.works if is_work else catalogue.designs
    name = random.choice([entry.name for entry in entries])
    chain = (random.choice(("taker", "taken")),) if is_work else random.choice(CHAINS)
    path = follow(catalogue, name, chain)
    hop = random.randrange(len(path))
    thing, relation, value = path[hop]
    named = (
        "this picture"
        if is_work
        else f"the {_phrase(random.choice(catalogue.designs).look, random)}"
    )
    known_before = (fact_text(fact[1], fact[0], fact[2]) for fact in path[:hop])
    statements = RELATIONS[relation].statements
    is_last = hop + 1 == len(path)
    return _Fact(
        question_of(chain, name),
        (f"what is {named} called: {name}", *known_before),
        question_of((relation,), thing),
        frozenset(text.replace("#", thing).replace("*", value) for text in statements),
        value,
        f"answer: {value}" if is_last else f"more: {fact_text(relation, thing, value)}",
    )


def _reading(library: Library, fact: _Fact, random: Random) -> ExpertReply:
    line = _pick_line(library.search(fact.words, MAX_PASSAGES), fact.sentences, random)
    tells = any(sentence in line for sentence in fact.sentences)
    decision = Decision("text_search", fact.words)
    prompt = judge_prompt(fact.query, fact.known, decision, [line], STYLE)
    return ExpertReply("read", as_text(prompt), f" {fact.verdict if tells else 'no'}{END}")


def _pick_line(lines: list[str], sentences: frozenset[str], random: Random) -> str:
    """Return a sentence of one of the passages: the one with the fact, one beside it, or any."""
    telling = [line for line in lines if any(sentence in line for sentence in sentences)]
    fate = random.random()
    if not telling or fate > _TELLING + _BESIDE:
        return random.choice(parts_of(random.choice(lines), STYLE))
    parts = parts_of(random.choice(telling), STYLE)
    tells = [part for part in parts if any(sentence in part for sentence in sentences)]
    others = [part for part in parts if part not in tells]
    return random.choice(tells if fate < _TELLING or not others else others)


def _naming(library: Library, random: Random) -> ExpertReply:
    """Return a verdict about the note of a picture from image search."""
    marked = [design for design in library.catalogue.designs if design.mark]
    has_label = bool(marked) and random.random() < _LABELLED
    target = random.choice(marked if has_label else library.catalogue.designs)
    design = random.choice(marked) if has_label and random.random() < _TELLING else target
    look = target.look
    phrase = f"{_phrase(look, random)}{' with the label' if has_label else ''}"
    seen = f"a {look.words}"
    context = [f"object 1: {seen}", f"looking at object 1: {seen}"]
    about = random.choice(("entities", "captions", "titles"))
    if has_label:
        context, about = [*context, target.mark], "entities"
    note = random.choice(library.notes[design.name])
    lines = list(lines_of_note(note, about)) or [f"{design.name}: a {look.shape}"]
    names = {design.name for design in library.catalogue.designs}
    named = next((word for word in lines[0].replace(":", " ").split() if word in names), "")
    is_it = named and (not has_label or f"marked {target.mark}" in lines[0])
    prompt = judge_prompt(
        f"what is the {phrase} called?", context, Decision(about), lines[:1], STYLE
    )
    return ExpertReply("read", as_text(prompt), f" {f'answer: {named}' if is_it else 'no'}{END}")


def _phrase(look: Look, random: Random) -> str:
    return random.choice((look.shape, f"{look.colour} {look.shape}", f"{look.size} {look.shape}"))
