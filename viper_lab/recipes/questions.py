"""Training questions of the embedded VQA model with their true answers.

Questions are about one object (a crop around its box) or about a whole picture. Answers are one or
two words; a caption is a phrase or a list of phrases.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from viper_lab.recipes.object_words import (
    FAMILIES,
    GENERAL_NOUNS,
    attributes,
    fits,
    phrase,
    some_attributes,
)
from viper_lab.world.scene import SceneObject
from viper_lab.world.vocabulary import HELD_OUT_COMBINATIONS, MATERIALS

CAPTION_QUESTION = "what is in the picture?"


class QAPair(NamedTuple):
    """A question, its answer, and its subject (a family, or a kind of question)."""

    question: str
    answer: str
    about: str


_QUESTIONS = tomllib.loads(Path(__file__).with_name("questions.toml").read_text("utf-8"))

# Questions whose answer is the object's word of a family; ``{this}`` stands for the object.
WORD_QUESTIONS: Mapping[str, Sequence[str]] = _QUESTIONS["words"]

YES_NO_QUESTIONS: Sequence[str] = _QUESTIONS["others"]["yes_no"]
PATTERN_QUESTIONS: Sequence[str] = _QUESTIONS["others"]["pattern"]


def about_object(
    thing: SceneObject, rng: np.random.Generator, coloured: bool = True
) -> list[QAPair]:
    """Return one question per family, a yes/no question, an existence question and a caption.

    Args:
        thing: the object.
        rng: chooses the wording.
        coloured: whether the crop shows the object's own colour; if not, nothing mentions it.
    """
    if not coloured:
        families = [family for family in FAMILIES if family != "colour"]
        pairs = [word_question(thing, family, rng, coloured) for family in families]
        return [*pairs, _yes_no(thing, rng, coloured)]
    pairs = [word_question(thing, family, rng) for family in FAMILIES]
    return [*pairs, _yes_no(thing, rng), _exists([thing], rng), object_caption(thing)]


def judgements(
    thing: SceneObject, rng: np.random.Generator, count: int, coloured: bool = True
) -> list[QAPair]:
    """Return yes/no questions; see :func:`about_object`."""
    return [
        _exists([thing], rng) if coloured and rng.random() < 0.4 else _yes_no(thing, rng, coloured)
        for _ in range(count)
    ]


def about_picture(things: Sequence[SceneObject], rng: np.random.Generator) -> list[QAPair]:
    """Return a count, an existence question, a question on a unique object, and a caption."""
    pairs = [_count(things, rng), _exists(things, rng)]
    thing = things[int(rng.integers(len(things)))]
    named = {"shape": thing.shape} if rng.random() < 0.5 else some_attributes(thing, rng)
    if sum(fits(other, named) for other in things) == 1:
        families = [family for family in FAMILIES if family not in named]
        if families:
            family = str(rng.choice(families))
            name = "the " + phrase(named, _general_noun(rng))
            template = _pick(_naming(family), rng)
            pairs.append(QAPair(template.format(this=name), attributes(thing)[family], family))
    return [*pairs, picture_caption(things)]


def word_question(
    thing: SceneObject, family: str, rng: np.random.Generator, coloured: bool = True
) -> QAPair:
    """Ask for the object's word of one family; see :func:`about_object`."""
    template = _pick(WORD_QUESTIONS[family], rng)
    name = _naming_of(thing, family, rng, coloured)
    return QAPair(template.format(this=name), attributes(thing)[family], family)


def object_caption(thing: SceneObject) -> QAPair:
    """Return the caption ``a small red metal cube``."""
    return QAPair(CAPTION_QUESTION, f"a {phrase(attributes(thing))}", "caption")


def picture_caption(things: Sequence[SceneObject]) -> QAPair:
    """Return ``a red cube, a blue ball and a red cone``, big ones first, in order of vocabulary."""
    order = sorted(
        things, key=lambda t: (FAMILIES["shape"].index(t.shape), FAMILIES["colour"].index(t.colour))
    )
    names = [f"a {thing.colour} {thing.shape}" for thing in order]
    text = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return QAPair(CAPTION_QUESTION, text, "caption")


def question_words() -> set[str]:
    """Return every word of these questions and answers, and common words of other questions."""
    texts: list[str] = [
        CAPTION_QUESTION,
        *GENERAL_NOUNS,
        *MATERIALS,
        *(word for words in FAMILIES.values() for word in words),
    ]
    texts += [f"{word}s" for word in (*FAMILIES["shape"], *GENERAL_NOUNS)]
    texts += [t.format(this="this it", word="") for group in WORD_QUESTIONS.values() for t in group]
    texts += ["yes no and or a an the of many number how are there any is does do has with made"]
    texts += [
        "to in on you see left right front behind above below near next image photo one two three"
    ]
    texts += ["who where which when why his her their while what describe people person doing"]
    return {word.strip("?,") for text in texts for word in text.split()}


def _naming(family: str) -> Sequence[str]:
    return [
        text for text in WORD_QUESTIONS[family] if "{this}" in text and text != "what is {this}?"
    ]


def _naming_of(
    thing: SceneObject, family: str, rng: np.random.Generator, coloured: bool = True
) -> str:
    """Return ``this``, ``it``, or the object by attributes other than the requested one."""
    draw = rng.random()
    if draw < 0.4:
        return "this"
    if draw < 0.55:
        return "it"
    if draw < 0.65:
        return f"the {_general_noun(rng)}"
    unsaid = {family} if coloured else {family, "colour"}
    others = {f: w for f, w in attributes(thing).items() if f not in unsaid}
    if draw < 0.85 and family != "shape":
        return f"the {thing.shape}"
    named = {f: w for f, w in others.items() if rng.random() < 0.4}
    return "the " + phrase(named, _general_noun(rng))


def _yes_no(thing: SceneObject, rng: np.random.Generator, coloured: bool = True) -> QAPair:
    """Ask ``is the cube red?``; the answer is yes half of the time."""
    family = str(rng.choice([name for name in FAMILIES if coloured or name != "colour"]))
    truth = attributes(thing)[family]
    wrong = [w for w in FAMILIES[family] if w != truth and not _held_out(thing, family, w)]
    yes = rng.random() < 0.5
    word = truth if yes else str(rng.choice(wrong))
    name = _naming_of(thing, family, rng, coloured)
    if family == "material" and rng.random() < 0.6:
        question = f"is {name} made of {word}?"
    elif family == "shape":
        question = f"is {name} a {word}?"
    else:
        question = _pick(YES_NO_QUESTIONS, rng).format(this=name, word=word)
    return QAPair(question, "yes" if yes else "no", "yes_no")


def _exists(things: Sequence[SceneObject], rng: np.random.Generator) -> QAPair:
    """Ask ``is there a red cube?``; the answer is yes half of the time, as far as chance allows."""
    named = some_attributes(things[int(rng.integers(len(things)))], rng)
    if rng.random() < 0.5:
        family = str(rng.choice(list(named)))
        named = named | {family: str(rng.choice(FAMILIES[family]))}
        while (named.get("colour"), named.get("shape")) in HELD_OUT_COMBINATIONS:
            named = named | {"colour": str(rng.choice(FAMILIES["colour"]))}
    there = any(fits(thing, named) for thing in things)
    name = phrase(named, _general_noun(rng))
    forms = ("is there a {}?", "is there any {}?", "is this a {}?", "is there a {} in the picture?")
    form = forms[int(rng.integers(len(forms)))]
    if len(things) > 1 and form == "is this a {}?":
        form = "is there a {}?"
    return QAPair(form.format(name), "yes" if there else "no", "exists")


def _count(things: Sequence[SceneObject], rng: np.random.Generator) -> QAPair:
    named = some_attributes(things[int(rng.integers(len(things)))], rng)
    if rng.random() < 0.4:
        named = {"shape": str(rng.choice(FAMILIES["shape"]))}
    elif rng.random() < 0.3:
        named = {}
    number = sum(fits(thing, named) for thing in things)
    name = phrase(named, _general_noun(rng)) + "s"
    forms = ("how many {} are there?", "how many {} are in the picture?", "how many {} do you see?")
    return QAPair(_pick(forms, rng).format(name), str(number), "count")


def _held_out(thing: SceneObject, family: str, word: str) -> bool:
    """Return whether the object with that word would be a pair that training must not judge."""
    if family not in ("colour", "shape"):
        return False
    words = attributes(thing) | {family: word}
    return (words["colour"], words["shape"]) in HELD_OUT_COMBINATIONS


def _general_noun(rng: np.random.Generator) -> str:
    return GENERAL_NOUNS[int(rng.integers(len(GENERAL_NOUNS)))]


def _pick(choices: Sequence[str], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]
