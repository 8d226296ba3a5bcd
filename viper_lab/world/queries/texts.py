"""Queries and programs as text alone, in bulk, for training language models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count as counted
from random import Random

from viper_lab.world.queries import ambiguous, compositional, temporal
from viper_lab.world.queries.conventions import Conventions
from viper_lab.world.queries.lexicon import WORLD, FreeNouns, Lexicon, NoSuchNounError
from viper_lab.world.queries.meaning import SHARES, TASK_OF_FAMILY, Meaning
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.sample import SelectionSample, TextSample

# Share of each family if none is named.
FAMILY_WEIGHTS: Mapping[str, float] = {"referring": 0.38, "question": 0.38, "video": 0.24}

# Failed draws of an ambiguous query of the requested sorts before any sort is accepted.
_TRIES = 50


def text_sample(
    random: Random,
    split: str = "train",
    *,
    family: str | None = None,
    api: str = "abstract",
    lexicon: Lexicon = WORLD,
) -> TextSample:
    """Draw one query with its canonical program, true of no particular scene.

    The test split uses held-out templates, and attribute combinations that other splits never hold.

    Args:
        family: one of FAMILIES; None mixes them.
        lexicon: other words make another language with the same grammar.
    """
    if family is None:
        family = random.choices(tuple(FAMILY_WEIGHTS), tuple(FAMILY_WEIGHTS.values()))[0]
    weights = SHARES[family]
    type_ = random.choices(tuple(weights), tuple(weights.values()))[0]
    if family == "video":
        names = object_names(5, random, lexicon, held_out=split == "test")
        meaning = temporal.draw_temporal(type_, names, random)
        return _clip_sample(meaning, names, random, split, api)
    nouns = FreeNouns(random, lexicon, held_out=split == "test")
    meaning = compositional.draw_about_scene(family, type_, nouns, random)
    return _scene_sample(meaning, family, random, split, api)


def ambiguous_text_sample(
    random: Random,
    conventions: Conventions,
    split: str = "train",
    *,
    family: str,
    sorts: Sequence[str] | None = None,
    api: str = "abstract",
    lexicon: Lexicon = WORLD,
) -> TextSample:
    """Draw one ambiguous query with its correct program under the conventions.

    Args:
        sorts: keys of ``ambiguous.WEIGHTS[family]`` to draw from, all equally likely; None draws
            from all of them by their weights.
    """
    weights = ambiguous.WEIGHTS[family]
    if sorts is not None:
        weights = dict.fromkeys(sorts, 1.0)
    if family == "video":
        sort = random.choices(tuple(weights), tuple(weights.values()))[0]
        names = object_names(5, random, lexicon, held_out=split == "test")
        meaning = ambiguous.draw_ambiguous(family, sort, names, random, conventions)
        return _clip_sample(meaning, names, random, split, api)
    nouns = FreeNouns(random, lexicon, held_out=split == "test")
    for attempt in counted():
        if attempt == _TRIES:  # these sorts have no words in this lexicon
            weights = ambiguous.WEIGHTS[family]
        sort = random.choices(tuple(weights), tuple(weights.values()))[0]
        with suppress(NoSuchNounError):
            meaning = ambiguous.draw_ambiguous(family, sort, nouns, random, conventions)
            return _scene_sample(meaning, family, random, split, api)
    raise AssertionError("unreachable")


def _scene_sample(
    meaning: Meaning, family: str, random: Random, split: str, api: str
) -> TextSample:
    texts = compositional.say_about_scene(family, meaning, random, split)
    return _sample(meaning, texts, family, api)


def _clip_sample(
    meaning: Meaning, names: Sequence[str], random: Random, split: str, api: str
) -> TextSample:
    options = tuple(_random_options(meaning, names, random))
    return _sample(meaning, temporal.say_temporal(meaning, random, split), "video", api, options)


def _sample(
    meaning: Meaning, texts: tuple[str, str], family: str, api: str, options: tuple[str, ...] = ()
) -> TextSample:
    (template, text), task = texts, TASK_OF_FAMILY[family]
    program = gold_program(meaning, api, task)
    return TextSample(text, program, task, api, meaning.type, template, meaning, options)


def selection_sample(
    random: Random, split: str = "train", lexicon: Lexicon = WORLD
) -> SelectionSample:
    """Draw information, question, options and the right option.

    This is the input of ``select_answer`` in programs about clips. The information is the sentence
    that a right program keeps. A share holds more than one sentence, the option's own among them.
    """
    weights = temporal.WEIGHTS
    type_ = random.choices(tuple(weights), tuple(weights.values()))[0]
    names = object_names(5, random, lexicon, held_out=split == "test")
    meaning = temporal.draw_temporal(type_, names, random)
    happened = _answer_event(meaning, names, random)
    answer = temporal.option_text(type_, happened)
    options = [answer]
    while len(options) < random.choice((4, 5)):
        other = temporal.option_text(type_, _answer_event(meaning, random.sample(names, 5), random))
        if other not in options:
            options.append(other)
    random.shuffle(options)
    info = temporal.event_sentence(happened)
    if random.random() < 0.3:
        info += "."
    question = temporal.say_temporal(meaning, random, split)[1]
    return SelectionSample(info, question, tuple(options), answer)


def object_names(
    count: int, random: Random, lexicon: Lexicon = WORLD, *, held_out: bool = False
) -> list[str]:
    """Draw distinct object names, ``red cube``."""
    names: list[str] = []
    while len(names) < count:
        color, shape = random.choice(lexicon.colors), random.choice(lexicon.shapes)
        if (held_out or (color, shape) not in lexicon.held_out) and f"{color} {shape}" not in names:
            names.append(f"{color} {shape}")
    return names


def _answer_event(meaning: Meaning, names: Sequence[str], random: Random) -> Meaning:
    """Draw a possible answer event of the query, true of no particular clip."""
    kind = str(meaning.slots.get("kind") or random.choice(tuple(temporal.VERBS)))
    actor = str(meaning.slots.get("actor") or random.choice(names))
    others = [name for name in names if name != actor]
    if meaning.type == "what_hit":
        return temporal.event("hit", actor, random.choice(others))
    if meaning.type == "who_hits":
        return temporal.event("hit", random.choice(others), actor)
    return temporal.event(kind, actor, random.choice(others) if kind == "hit" else None)


def _random_options(meaning: Meaning, names: Sequence[str], random: Random) -> list[str]:
    count = random.choice((4, 5))
    options: list[str] = []
    for _ in range(200):
        text = temporal.option_text(meaning.type, _answer_event(meaning, names, random))
        if text not in options:
            options.append(text)
        if len(options) == count:
            return options
    return options
