"""Expressions and questions about scenes of reserved concepts, about new and about old words.

Meanings, wordings and programs are those of the explicit queries, so a writer that reads those can
read these; only the nouns are new. Queries *about the new* name the concept or have it as their
answer. Queries *about the old* do neither, but a concept is in the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal

from viper_lab.world.places import ScenePlace, random_place
from viper_lab.world.queries import compositional
from viper_lab.world.queries.lexicon import NoSuchNounError
from viper_lab.world.queries.meaning import RESERVED_SHARES, SELECTIONS, Meaning
from viper_lab.world.queries.plans import gold_plan
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.scene_nouns import ReservedNouns
from viper_lab.world.queries.task_sample import TaskSample, TaskSpec, task_specs
from viper_lab.world.queries.truth import SceneTruth, UnanswerableError
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS

About = Literal["new", "old"]


# Share of pictures without the concept when its number is asked for.
_ABSENT = 0.12

_PROPOSALS = 60


def generate_about_reserved(
    split: str,
    seed: int,
    count: int,
    *,
    concepts: Sequence[str] = tuple(CONCEPTS),
    about: About = "new",
) -> list[TaskSample]:
    """Return alternating expressions and questions; the same arguments give the same ones.

    A smaller ``count`` gives the first of them.

    Args:
        concepts: reserved concepts of the pictures, in turn.
        about: ``new`` or ``old``, see the module.

    Raises:
        UnknownNameError: no such split or reserved concept.
    """
    random = Random(f"reserved {about} {split} {seed} {' '.join(concepts)}")
    part = concepts[0] if len(concepts) == 1 and about == "new" else about
    return [
        _draw(each, about, random)
        for each in task_specs("reserved", split, seed, count, concepts, part)
    ]


def _draw(each: TaskSpec, about: About, random: Random) -> TaskSample:
    assert each.concept is not None
    family = "referring" if random.random() < 0.5 else "question"
    weights = RESERVED_SHARES[family]
    type_ = random.choices(tuple(weights), tuple(weights.values()))[0]
    absent = about == "new" and type_ == "count" and random.random() < _ABSENT
    reply = random.choice(("yes", "no"))
    while True:
        place, scene = random_place(random, each.split, each.concept, present=not absent)
        truth = SceneTruth(render_scene(scene))
        nouns = ReservedNouns(
            truth,
            random,
            each.concept,
            share=0.7 if about == "new" else 0,
            held_out=each.split == "test",
        )
        for _ in range(_PROPOSALS):
            try:
                meaning = _meaning(type_, family, nouns, each.concept, about, random)
                answer = truth.answer(meaning)
            except (NoSuchNounError, UnanswerableError):
                continue
            if answer in ("yes", "no") and answer != reply:
                continue
            if (about == "new") == (each.concept in {*slot_words(meaning), str(answer)}):
                return _sample(each, family, meaning, answer, (place, truth), random)


def _meaning(
    type_: str, family: str, nouns: ReservedNouns, concept: str, about: About, random: Random
) -> Meaning:
    asks_new = family == "question" and about == "new"
    if asks_new and type_ == "count":
        noun = random.choice(("object", "thing", *nouns.shapes_shown))
        kind = concept if CONCEPTS[concept] == "shape" else f"{concept} {noun}"
        return Meaning("count", {"kind": kind})
    meaning = compositional.draw_about_scene(family, type_, nouns, random)
    if asks_new and "property" in meaning and _fits(meaning, concept):
        return Meaning(type_, {**meaning.slots, **_properties(meaning, concept, nouns, random)})
    return meaning


def _fits(meaning: Meaning, concept: str) -> bool:
    """Return whether a question may ask for the property by the concept's name; no shape may."""
    return CONCEPTS[concept] != "shape" and concept not in slot_words(meaning)


def _properties(
    meaning: Meaning, concept: str, nouns: ReservedNouns, random: Random
) -> dict[str, str]:
    """Return the concept as the property in question; of two properties, as one of them."""
    if "other_property" not in meaning:
        return {"property": concept}
    if CONCEPTS[concept] == "pattern":
        raise NoSuchNounError
    other = random.choice([word for word in nouns.lexicon.colors if word != concept])
    first, second = random.sample((concept, other), 2)
    return {"property": first, "other_property": second}


def slot_words(meaning: Meaning) -> set[str]:
    """Return all words of a meaning's slots."""
    words: set[str] = set()
    for value in meaning.slots.values():
        if isinstance(value, Meaning):
            words |= slot_words(value)
        elif isinstance(value, str):
            words |= set(value.split())
    return words


def _sample(
    each: TaskSpec,
    family: str,
    meaning: Meaning,
    answer: int | str,
    seen: tuple[ScenePlace, SceneTruth],
    random: Random,
) -> TaskSample:
    place, truth = seen
    template, text = compositional.say_about_scene(family, meaning, random, each.split)
    target: object = answer
    if meaning.type in SELECTIONS:
        target = truth.rendered.box(int(answer))
    is_named = each.concept in slot_words(meaning)
    return each.sample(
        task="ground" if family == "referring" else "question",
        text=text,
        target=target,
        places=(place,),
        plan=gold_plan(meaning),
        program=gold_program(meaning, "abstract"),
        query_type=meaning.type,
        template=template,
        api="abstract",
        groups={
            "family": family,
            "about": "named" if is_named else "answer" if answer == each.concept else "old",
        },
    )
