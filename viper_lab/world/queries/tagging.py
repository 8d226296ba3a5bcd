"""Knowledge tagging: boxes and labels of the objects of which something is generally known.

"Tag the objects that end in a point with their shape": what a cone is can be seen, that it ends in
a point has to be known (:mod:`viper_lab.world.queries.facts`). The answer is a label and a box for
each such object.

Source: VisProg (Gupta and Kembhavi 2023, sec. 4.3); CLOVA (Gao et al. 2024, sec. 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from viper.prompting.plans import numbered
from viper.schema import PixelBox
from viper_lab.world.places import ScenePlace, random_place
from viper_lab.world.queries.facts import PLAIN, Fact, facts_about, words_of
from viper_lab.world.queries.task_sample import TaskSample, TaskSpec, wanted
from viper_lab.world.queries.wording import read_templates
from viper_lab.world.render import render_scene
from viper_lab.world.scene import RenderedScene, Scene

TEMPLATES = read_templates("tagging")["tag"]

_THIRD_PERSON: Mapping[str, str] = {
    "have": "has",
    "end": "ends",
    "conduct": "conducts",
    "would": "would",
    "could": "could",
    "ring": "rings",
    "look": "looks",
}


def generate_tagging(
    split: str, seed: int, count: int, *, concepts: Sequence[str] = (), listed: bool = False
) -> list[TaskSample]:
    """Tagging instructions about pictures of a split; the same arguments give the same ones.

    Fewer of the same arguments are the first of more.

    Args:
        concepts: reserved ones that the pictures show, by turns, and that each fact tells from
            the rest or counts in; none: known objects.
        listed: programs ask the language model for the list; else they carry it.

    Raises:
        UnknownNameError: no such split or reserved concept.
    """
    random = Random(f"tag {split} {seed} {' '.join(concepts)}")
    return [_drawn(each, random, listed) for each in wanted("tag", split, seed, count, concepts)]


def _drawn(each: TaskSpec, random: Random, listed: bool) -> TaskSample:
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
    """Label and visible box of each object of which a fact holds."""
    words = enumerate(_words(fact, rendered.scene))
    return tuple((word, rendered.box(index)) for index, word in words if word in fact.members)


def _words(fact: Fact, scene: Scene) -> list[str]:
    attribute = {"color": "colour"}.get(fact.family, fact.family)
    return [getattr(thing, attribute) or PLAIN for thing in scene.objects]


def tagging_program(fact: Fact, concept: str | None = None, *, listed: bool = False) -> str:
    """The line program: every object gets its word, and those with a word of the list are tagged.

    Args:
        concept: reserved one that is among the words.
        listed: ``LIST`` asks the language model which words they are; else they stand there.
    """
    words = words_of(fact.family, concept)
    kept = [word for word in words if word in fact.members]
    lines = [
        "OBJ0=LOC(image=IMAGE,object='object')",
        f"OBJ1=CLASSIFY(image=IMAGE,object=OBJ0,categories={list(words)})",
    ]
    query = repr(", ".join(kept))
    if listed:
        lines.append(f'LIST0=LIST(query="{fact.asked}",max=20)')
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
    """The steps of :func:`tagging_program` in words."""
    words = words_of(fact.family, concept)
    kept = [word for word in words if word in fact.members]
    which = "in the list" if listed else " or ".join(kept)
    return numbered(
        "Find every object.",
        f"Give each object its {fact.family}: {', '.join(words)}.",
        *([f"List the {fact.asked}."] if listed else []),
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
    verb, _, rest = fact.said.partition(" ")
    one = "every object that" in template or "every thing that" in template or "each" in template
    said = f"{_THIRD_PERSON[verb] if one else verb} {rest}"
    said = said.replace("strike them", "strike it") if one else said
    return TaskSample(
        sample_id=each.sample_id,
        split=each.split,
        task="tag",
        text=template.format(fact=said, family=fact.family),
        target=tags,
        places=(place,),
        plan=tagging_plan(fact, each.concept, listed=listed),
        program=tagging_program(fact, each.concept, listed=listed),
        query_type=fact.family,
        template=f"{fact.family}:{name}",
        concept=each.concept,
    )
