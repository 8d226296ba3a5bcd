"""Knowledge tagging: boxes and labels of the objects that a general fact applies to.

"Tag the objects that end in a point with their shape": the picture shows a cone, but only knowledge
tells that a cone ends in a point (:mod:`viper_lab.world.queries.facts`). The answer is a label and
a box for each such object.

Source: VisProg (Gupta and Kembhavi 2023, sec. 4.3); CLOVA (Gao et al. 2024, sec. 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from viper.prompting.plans import numbered
from viper.schema import PixelBox
from viper_lab.world.places import ScenePlace, random_place
from viper_lab.world.queries.facts import PLAIN, Fact, facts_about, words_of
from viper_lab.world.queries.task_sample import TaskSample, TaskSpec, task_specs
from viper_lab.world.queries.wording import read_templates
from viper_lab.world.render import render_scene
from viper_lab.world.scene import RenderedScene, Scene

TEMPLATES = read_templates("tagging")["tag"]

# Verbs of facts that do not take an ``s``.
_THIRD_PERSON = {"have": "has", "would": "would", "could": "could"}


def generate_tagging(
    split: str, seed: int, count: int, *, concepts: Sequence[str] = (), listed: bool = False
) -> list[TaskSample]:
    """Return tagging instructions about pictures of a split; same arguments, same instructions.

    A smaller ``count`` gives the first of them.

    Args:
        concepts: reserved concepts of the pictures, in turn, which each fact either includes or
            excludes; none: known objects.
        listed: programs ask the language model for the list; else they contain it.

    Raises:
        UnknownNameError: no such split or reserved concept.
    """
    random = Random(f"tag {split} {seed} {' '.join(concepts)}")
    return [_draw(each, random, listed) for each in task_specs("tag", split, seed, count, concepts)]


def _draw(each: TaskSpec, random: Random, listed: bool) -> TaskSample:
    facts = facts_about(each.concept)
    fact = facts[random.randrange(len(facts))]
    if each.concept is not None and random.random() < 0.5:
        fact = random.choice([f for f in facts if each.concept in f.members] or facts)
    while True:
        place, scene = random_place(random, each.split, each.concept)
        words = _words(fact, scene)
        held = sum(word in fact.members for word in words)
        if 0 < held < len(words) and fact.doubtful.isdisjoint(words):
            tags = true_tags(fact, render_scene(scene))
            return _sample(each, fact, place, tags, listed, random)


def true_tags(fact: Fact, rendered: RenderedScene) -> tuple[tuple[str, PixelBox], ...]:
    """Return label and visible box of each object for which a fact holds."""
    words = enumerate(_words(fact, rendered.scene))
    return tuple((word, rendered.box(index)) for index, word in words if word in fact.members)


def _words(fact: Fact, scene: Scene) -> list[str]:
    attribute = {"color": "colour"}.get(fact.family, fact.family)
    return [getattr(thing, attribute) or PLAIN for thing in scene.objects]


def tagging_program(fact: Fact, concept: str | None = None, *, listed: bool = False) -> str:
    """Return the line program: find each object's word and tag those whose word is in the list.

    Args:
        concept: reserved concept among the words.
        listed: ``LIST`` asks the language model for the words; else the program contains them.
    """
    words = words_of(fact.family, concept)
    members = [word for word in words if word in fact.members]
    lines = [
        "OBJ0=LOC(image=IMAGE,object='object')",
        f"OBJ1=CLASSIFY(image=IMAGE,object=OBJ0,categories={list(words)})",
    ]
    query = repr(", ".join(members))
    if listed:
        lines.append(f'LIST0=LIST(query="{fact.request}",max=20)')
        query = "LIST0"
    return "\n".join(
        [
            *lines,
            f"OBJ2=SELECT(image=IMAGE,object=OBJ1,query={query},category=None)",
            "IMAGE0=TAG(image=IMAGE,object=OBJ2)",
            "FINAL_RESULT=RESULT(var=IMAGE0)",
        ]
    )


def tagging_plan(fact: Fact, concept: str | None = None, *, listed: bool = False) -> str:
    """Return the steps of :func:`tagging_program` in words."""
    words = words_of(fact.family, concept)
    members = [word for word in words if word in fact.members]
    which = "in the list" if listed else " or ".join(members)
    return numbered(
        "Find every object.",
        f"Give each object its {fact.family}: {', '.join(words)}.",
        *([f"List the {fact.request}."] if listed else []),
        f"Keep the objects whose {fact.family} is {which}.",
        "Tag them.",
    )


def _sample(
    each: TaskSpec,
    fact: Fact,
    place: ScenePlace,
    tags: tuple[tuple[str, PixelBox], ...],
    listed: bool,
    random: Random,
) -> TaskSample:
    name, template = TEMPLATES.pick(random, each.split)
    verb, _, rest = fact.clause.partition(" ")
    singular = (
        "every object that" in template or "every thing that" in template or "each" in template
    )
    clause = f"{_THIRD_PERSON.get(verb, verb + 's') if singular else verb} {rest}"
    clause = clause.replace("strike them", "strike it") if singular else clause
    return each.sample(
        task="tag",
        text=template.format(fact=clause, family=fact.family),
        target=tags,
        places=(place,),
        plan=tagging_plan(fact, each.concept, listed=listed),
        program=tagging_program(fact, each.concept, listed=listed),
        query_type=fact.family,
        template=f"{fact.family}:{name}",
    )
