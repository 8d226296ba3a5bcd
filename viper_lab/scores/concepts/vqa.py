"""VQA: questions about single objects whose answer is a reserved concept, or hangs on one.

Objects are cut out by their true boxes, so that the answerer alone is measured. An answer is right
if it is the very word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

import numpy as np

from viper.models.media import media_from
from viper.models.vision.roles import Pixels
from viper.schema import PixelBox
from viper.tools.crops import object_crop
from viper.tools.toolbox import Toolbox
from viper.tuning.soft_prompts.base import AnsweredQuestion
from viper_lab.recipes.object_words import FAMILIES
from viper_lab.recipes.questions import (
    WORD_QUESTIONS,
    about_object,
    about_picture,
)
from viper_lab.scores.concepts.measurement import ToolAnswer, seen
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS, reserved_still, shows
from viper_lab.world.scene import RenderedScene, SceneObject

NAMING: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "colour": WORD_QUESTIONS["colour"],
        "shape": WORD_QUESTIONS["shape"],
        "pattern": (
            "what pattern is {this}?",
            "what pattern does {this} have?",
            "which pattern does {this} have?",
            "what is the pattern of {this}?",
            "what is its pattern?",
        ),
    }
)
"""Questions whose answer is a concept of that family; ``{this}`` is what is asked about."""

RIGHT_PER_WRONG = 6
"""Cases of a lesson that were right already, for each that was not."""

SCENES = 1_000
"""Scenes of one concept that a seed may ask about."""

_OLD_FIRST = 3 * 10**8 + 5 * 10**7
"""Where the scenes without reserved concepts begin in a split; trainings and queries are before."""


@dataclass(frozen=True, eq=False)
class VqaQuestion:
    """A question about a picture with the true answer.

    Attributes:
        kind: ``name`` (which word?) or ``judge`` (yes or no) about a concept; ``old`` or
            ``old+new``, the latter where a reserved concept stands too.
        box: of the object in pixels from the top-left corner; None: about the whole picture.
    """

    kind: str
    concept: str
    sample: str
    image: Pixels
    box: PixelBox | None
    question: str
    answer: str


def about(toolbox: Toolbox, concept: str, *, split: str, count: int, seed: int) -> list[ToolAnswer]:
    """Questions about a reserved concept, by turns ``name``, and ``judge`` of those and others."""
    return [_asked(toolbox, one) for one in islice(questions_about(concept, split, seed), count)]


def about_old(
    toolbox: Toolbox, concepts: Sequence[str], *, split: str, count: int, seed: int
) -> list[ToolAnswer]:
    """Questions of the kinds that the model was trained on, about old words.

    Half of them (``old+new``) in scenes where one of ``concepts`` stands: on objects that do not
    show it, and on what else there is to say of one that does.
    """
    return [
        _asked(toolbox, one) for one in islice(questions_about_old(concepts, split, seed), count)
    ]


def lesson(toolbox: Toolbox, concept: str, count: int, seed: int) -> list[AnsweredQuestion]:
    """Questions about a concept in training scenes that the tool failed on, so many at most.

    With them cases from the same scenes that were right already, :data:`RIGHT_PER_WRONG` times
    as many at most: other questions about the same objects, the same question about others.
    """
    wrong: list[AnsweredQuestion] = []
    right: list[AnsweredQuestion] = []
    for one in islice(questions_about(concept, "train", seed), 10 * count):
        if len(wrong) == count:
            break
        answered = _answered(toolbox, one, f"{one.sample}:{one.kind}")
        if not answered.right_already:
            wrong.append(answered)
            rng = np.random.default_rng([seed, len(wrong), 13])
            for other in _beside(one, concept, seed, rng):
                found = _answered(toolbox, other, f"{one.sample}:right:{len(right)}")
                if found.right_already:
                    right.append(found)
    return [*wrong, *right[: RIGHT_PER_WRONG * len(wrong)]]


def questions_about(concept: str, split: str, seed: int) -> Iterator[VqaQuestion]:
    """The questions of :func:`about`, two a scene, without an end."""
    for place in range(SCENES):
        index, rng = _drawn(concept, seed, place)
        still = reserved_still(split, index, concept)
        sample, scene = f"{split}:{concept}:{index}", still.rendered
        shown = [i for i in _seen(scene) if still.shown[i]]
        others = [i for i in _seen(scene) if not still.shown[i]]
        if not shown:
            continue
        thing = shown[int(rng.integers(len(shown)))]
        yield _about(
            scene, thing, sample, "name", concept, _worded(NAMING[CONCEPTS[concept]], rng), concept
        )
        judged = others[int(rng.integers(len(others)))] if place % 2 and others else thing
        answer = "yes" if judged == thing else "no"
        yield _about(scene, judged, sample, "judge", concept, _judging(concept, rng), answer)


def questions_about_old(concepts: Sequence[str], split: str, seed: int) -> Iterator[VqaQuestion]:
    """The questions of :func:`about_old`, without an end."""
    for place in range(SCENES):
        concept = concepts[place % len(concepts)]
        index, rng = _drawn(concept, seed, SCENES + place)
        still = reserved_still(split, index, concept)
        yield from _old(still.rendered, f"{split}:{concept}:{index}", "old+new", rng)
        number = _OLD_FIRST + seed * SCENES + place
        scene = render_scene(sample_scene(split, number))
        yield from _old(scene, f"{split}:{number}", "old", rng)


def _old(
    scene: RenderedScene, sample: str, kind: str, rng: np.random.Generator
) -> Iterator[VqaQuestion]:
    """Two questions about an object each, and where all is old one about the picture."""
    seen = _seen(scene)
    for thing in rng.permutation(seen)[:2] if seen else ():
        yield _old_question(scene, int(thing), sample, kind, rng)
    if kind == "old":
        asked = [one for one in about_picture(scene.scene.objects, rng) if one.about != "caption"]
        one = asked[int(rng.integers(len(asked)))]
        yield VqaQuestion(kind, one.about, sample, scene.image, None, one.question, one.answer)


def _old_question(
    scene: RenderedScene, thing: int, sample: str, kind: str, rng: np.random.Generator
) -> VqaQuestion:
    """Any question that the model was trained on; of a new thing only what is old about it."""
    truth = scene.scene.objects[thing]
    new = [concept for concept in CONCEPTS if shows(truth, concept)]
    if new:
        return _about(scene, thing, sample, kind, new[0], *_other_words(truth, new[0], rng))
    asked = [one for one in about_object(truth, rng) if one.about != "caption"]
    one = asked[int(rng.integers(len(asked)))]
    return _about(scene, thing, sample, kind, one.about, one.question, one.answer)


def _other_words(truth: SceneObject, concept: str, rng: np.random.Generator) -> tuple[str, str]:
    """A question about a thing that shows a concept, on something else, with its answer.

    Which colour a patterned thing has is not asked: it has two.
    """
    unasked = {CONCEPTS[concept], *(("colour",) if CONCEPTS[concept] == "pattern" else ())}
    families = [family for family in FAMILIES if family not in unasked]
    family = families[int(rng.integers(len(families)))]
    return _worded(WORD_QUESTIONS[family], rng), getattr(truth, family)


def _judging(concept: str, rng: np.random.Generator) -> str:
    word = concept
    if CONCEPTS[concept] == "shape":
        word = f"{'an' if concept[0] in 'aeiou' else 'a'} {concept}"
    return f"is {('this', 'it')[int(rng.integers(2))]} {word}?"


def _worded(templates: Sequence[str], rng: np.random.Generator) -> str:
    template = templates[int(rng.integers(len(templates)))]
    return template.format(this=("this", "it", "the object")[int(rng.integers(3))])


def _beside(
    one: VqaQuestion, concept: str, seed: int, rng: np.random.Generator
) -> Iterator[VqaQuestion]:
    """Cases like one that failed, which the tool may well have right, all of the same scene."""
    still = reserved_still("train", int(one.sample.rsplit(":", 1)[1]), concept)
    scene = still.rendered
    for thing in _seen(scene):
        truth = scene.scene.objects[thing]
        if not still.shown[thing]:
            if one.answer == "yes":
                yield _about(scene, thing, one.sample, "right", concept, one.question, "no")
            elif CONCEPTS[concept] != "pattern":
                word = getattr(truth, CONCEPTS[concept])
                yield _about(scene, thing, one.sample, "right", concept, one.question, word)
        yield _old_question(scene, thing, one.sample, "right", rng)


def _about(
    scene: RenderedScene,
    thing: int,
    sample: str,
    kind: str,
    concept: str,
    question: str,
    answer: str,
) -> VqaQuestion:
    box = scene.box(thing)
    return VqaQuestion(kind, concept, sample, scene.image, box, question, answer)


def _asked(toolbox: Toolbox, one: VqaQuestion) -> ToolAnswer:
    answer, _ = _ask(toolbox, one)
    return ToolAnswer(one.kind, one.concept, one.sample, float(answer == one.answer))


def _answered(toolbox: Toolbox, one: VqaQuestion, name: str) -> AnsweredQuestion:
    """The question with the pixels that the model is shown, and whether it has it right."""
    answer, pixels = _ask(toolbox, one)
    return AnsweredQuestion(name, pixels, one.question, one.answer, answer == one.answer)


def _ask(toolbox: Toolbox, one: VqaQuestion) -> tuple[str, Pixels]:
    session = toolbox.session(media_from([one.image]))
    height, width = one.image.shape[:2]
    ref = session.patch_ref("image0", one.box or (0, 0, width, height))
    region = session.region(ref)
    pixels = one.image
    if not region.is_whole:
        pixels = object_crop(one.image, region.box, toolbox.settings.crop_margin)
    return str(session.call("simple_query", (ref, one.question), {}, None)), pixels


def _drawn(concept: str, seed: int, place: int) -> tuple[int, np.random.Generator]:
    """The number of a concept's scene, and what draws the questions about it."""
    rng = np.random.default_rng([seed, list(CONCEPTS).index(concept), place, 17])
    return 2 * SCENES * seed + place, rng


def _seen(scene: RenderedScene) -> list[int]:
    return [int(i) for i in np.flatnonzero(seen(scene))]
