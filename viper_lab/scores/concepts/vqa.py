"""VQA questions about single objects whose answer is or depends on a reserved concept.

Objects are cropped by their true boxes, so that the score is the answerer's alone. An answer is
right if it is the exact word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from viper.models.media import media_from
from viper.models.vision.roles import Pixels
from viper.tools.tool_functions import region_crop
from viper.tools.toolbox import Toolbox
from viper.tuning.soft_prompts.base import AnsweredQuestion
from viper_lab.recipes.object_words import FAMILIES
from viper_lab.recipes.questions import (
    PATTERN_QUESTIONS,
    WORD_QUESTIONS,
    about_object,
    about_picture,
)
from viper_lab.scores.concepts.measurement import ToolAnswer, seen
from viper_lab.world.layout import sample_scene
from viper_lab.world.queries.wording import a
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS, reserved_still, shows
from viper_lab.world.scene import RenderedScene, SceneObject

# Questions whose answer is a concept of that family; ``{this}`` stands for the object.
NAMING: Mapping[str, Sequence[str]] = {**WORD_QUESTIONS, "pattern": PATTERN_QUESTIONS}

# Cases of a training set that were right already, per case that was not.
RIGHT_PER_WRONG = 6

# Scenes of one concept that a seed may ask about.
SCENES = 1_000

# First scene without reserved concepts in a split, after those of trainings and queries.
_OLD_FIRST = 3 * 10**8 + 5 * 10**7


@dataclass(frozen=True, eq=False)
class VqaQuestion:
    """A question about a picture with the true answer.

    Attributes:
        kind: ``name`` (which word?) or ``judge`` (yes or no) about a concept; ``old`` or
            ``old+new``, the latter if the picture has a reserved concept too.
        thing: number of the object in the scene; None: about the whole picture.
    """

    kind: str
    concept: str
    sample: str
    scene: RenderedScene
    thing: int | None
    question: str
    answer: str


def about(toolbox: Toolbox, concept: str, *, split: str, count: int, seed: int) -> list[ToolAnswer]:
    """Return questions about a reserved concept: alternately ``name`` and ``judge``."""
    return [_measure(toolbox, q) for q in islice(questions_about(concept, split, seed), count)]


def about_old(
    toolbox: Toolbox, concepts: Sequence[str], *, split: str, count: int, seed: int
) -> list[ToolAnswer]:
    """Return questions about old words, of the kinds that the model was trained on.

    Half of them (``old+new``) are in scenes with one of ``concepts``: about objects that do not
    show it, and about the other attributes of one that does.
    """
    return [_measure(toolbox, q) for q in islice(questions_about_old(concepts, split, seed), count)]


def training_data(toolbox: Toolbox, concept: str, count: int, seed: int) -> list[AnsweredQuestion]:
    """Return up to ``count`` questions about a concept in training scenes that the tool failed on.

    They come with cases from the same scenes that were right already, up to :data:`RIGHT_PER_WRONG`
    times as many: other questions about the same objects, and the same question about others.
    """
    wrong: list[AnsweredQuestion] = []
    right: list[AnsweredQuestion] = []
    for question in islice(questions_about(concept, "train", seed), 10 * count):
        if len(wrong) == count:
            break
        answered = _answer_case(toolbox, question, f"{question.sample}:{question.kind}")
        if not answered.right_already:
            wrong.append(answered)
            rng = np.random.default_rng([seed, len(wrong), 13])
            for other in _similar_cases(question, concept, seed, rng):
                answer = _answer_case(toolbox, other, f"{question.sample}:right:{len(right)}")
                if answer.right_already:
                    right.append(answer)
    return [*wrong, *right[: RIGHT_PER_WRONG * len(wrong)]]


def questions_about(concept: str, split: str, seed: int) -> Iterator[VqaQuestion]:
    """Yield the questions of :func:`about`, two per scene, without end."""
    for place in range(SCENES):
        index, rng = _draw_scene(concept, seed, place)
        still = reserved_still(split, index, concept)
        sample, scene = f"{split}:{concept}:{index}", still.rendered
        showing = [i for i in _visible(scene) if still.shown[i]]
        others = [i for i in _visible(scene) if not still.shown[i]]
        if not showing:
            continue
        thing = showing[int(rng.integers(len(showing)))]
        question = _fill(NAMING[CONCEPTS[concept]], rng)
        yield VqaQuestion("name", concept, sample, scene, thing, question, concept)
        judged = others[int(rng.integers(len(others)))] if place % 2 and others else thing
        answer = "yes" if judged == thing else "no"
        question = _ask_judgement(concept, rng)
        yield VqaQuestion("judge", concept, sample, scene, judged, question, answer)


def questions_about_old(concepts: Sequence[str], split: str, seed: int) -> Iterator[VqaQuestion]:
    """Yield the questions of :func:`about_old`, without end."""
    for place in range(SCENES):
        concept = concepts[place % len(concepts)]
        index, rng = _draw_scene(concept, seed, SCENES + place)
        still = reserved_still(split, index, concept)
        yield from _old(still.rendered, f"{split}:{concept}:{index}", "old+new", rng)
        number = _OLD_FIRST + seed * SCENES + place
        scene = render_scene(sample_scene(split, number))
        yield from _old(scene, f"{split}:{number}", "old", rng)


def _old(
    scene: RenderedScene, sample: str, kind: str, rng: np.random.Generator
) -> Iterator[VqaQuestion]:
    """Yield questions about two objects, and one about the picture if all words are old."""
    visible = _visible(scene)
    for thing in rng.permutation(visible)[:2] if visible else ():
        yield _old_question(scene, int(thing), sample, kind, rng)
    if kind == "old":
        pairs = [
            pair for pair in about_picture(scene.scene.objects, rng) if pair.about != "caption"
        ]
        pair = pairs[int(rng.integers(len(pairs)))]
        yield VqaQuestion(kind, pair.about, sample, scene, None, pair.question, pair.answer)


def _old_question(
    scene: RenderedScene, thing: int, sample: str, kind: str, rng: np.random.Generator
) -> VqaQuestion:
    """Draw any training question; of an object with a concept only one about its old words."""
    truth = scene.scene.objects[thing]
    new = [concept for concept in CONCEPTS if shows(truth, concept)]
    if new:
        question = _ask_other(truth, new[0], rng)
        return VqaQuestion(kind, new[0], sample, scene, thing, *question)
    pairs = [pair for pair in about_object(truth, rng) if pair.about != "caption"]
    pair = pairs[int(rng.integers(len(pairs)))]
    return VqaQuestion(kind, pair.about, sample, scene, thing, pair.question, pair.answer)


def _ask_other(truth: SceneObject, concept: str, rng: np.random.Generator) -> tuple[str, str]:
    """Return a question about another attribute of an object with a concept, and its answer.

    The colour of a patterned object is never asked: it has two.
    """
    unasked = {CONCEPTS[concept], *(("colour",) if CONCEPTS[concept] == "pattern" else ())}
    families = [family for family in FAMILIES if family not in unasked]
    family = families[int(rng.integers(len(families)))]
    return _fill(WORD_QUESTIONS[family], rng), getattr(truth, family)


def _ask_judgement(concept: str, rng: np.random.Generator) -> str:
    word = a(concept) if CONCEPTS[concept] == "shape" else concept
    return f"is {('this', 'it')[int(rng.integers(2))]} {word}?"


def _fill(templates: Sequence[str], rng: np.random.Generator) -> str:
    template = templates[int(rng.integers(len(templates)))]
    return template.format(this=("this", "it", "the object")[int(rng.integers(3))])


def _similar_cases(
    case: VqaQuestion, concept: str, seed: int, rng: np.random.Generator
) -> Iterator[VqaQuestion]:
    """Yield cases like a failed one, of the same scene, which the tool may answer correctly."""
    still = reserved_still("train", int(case.sample.rsplit(":", 1)[1]), concept)
    scene = still.rendered
    for thing in _visible(scene):
        truth = scene.scene.objects[thing]
        if not still.shown[thing]:
            if case.answer == "yes":
                yield replace(case, kind="right", thing=thing, answer="no")
            elif CONCEPTS[concept] != "pattern":
                word = getattr(truth, CONCEPTS[concept])
                yield replace(case, kind="right", thing=thing, answer=word)
        yield _old_question(scene, thing, case.sample, "right", rng)


def _measure(toolbox: Toolbox, case: VqaQuestion) -> ToolAnswer:
    answer, _ = _ask(toolbox, case)
    return ToolAnswer(case.kind, case.concept, case.sample, float(answer == case.answer))


def _answer_case(toolbox: Toolbox, case: VqaQuestion, name: str) -> AnsweredQuestion:
    """Return the question with the model's input pixels and whether its answer is right."""
    answer, pixels = _ask(toolbox, case)
    return AnsweredQuestion(name, pixels, case.question, case.answer, answer == case.answer)


def _ask(toolbox: Toolbox, case: VqaQuestion) -> tuple[str, Pixels]:
    pixels = case.scene.image
    session = toolbox.session(media_from([pixels]))
    height, width = pixels.shape[:2]
    box = (0, 0, width, height) if case.thing is None else case.scene.box(case.thing)
    ref = session.patch_ref("image0", box)
    answer = str(session.call("simple_query", (ref, case.question), {}, None))
    return answer, region_crop(session, session.region(ref))


def _draw_scene(concept: str, seed: int, place: int) -> tuple[int, np.random.Generator]:
    """Return the number of a concept's scene, and the generator of its questions."""
    rng = np.random.default_rng([seed, list(CONCEPTS).index(concept), place, 17])
    return 2 * SCENES * seed + place, rng


def _visible(scene: RenderedScene) -> list[int]:
    return [int(i) for i in np.flatnonzero(seen(scene))]
