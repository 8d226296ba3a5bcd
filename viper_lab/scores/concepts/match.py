"""SELECT and CLASSIFY: which picture fits a word best, and which word fits a picture.

Objects are cropped by their true boxes, so that the score is the matcher's alone. A list of
categories has exactly one right entry: the colours that an object has besides a pattern are not in
the list of that pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as counted
from itertools import islice

import numpy as np

from viper.models.media import media_from
from viper.tools.session import ToolSession
from viper.tools.toolbox import Toolbox
from viper_lab.scores.concepts.measurement import ToolAnswer
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS, reserved_still
from viper_lab.world.scene import RenderedScene, SceneObject
from viper_lab.world.vocabulary import COLOURS, SHAPES

# Scenes of one concept that a seed may ask about.
SCENES = 1_000

# First scene without reserved concepts in a split, after those of trainings and queries.
_OLD_FIRST = 3 * 10**8

# Every n-th ``classify`` question is a yes and a no instead of a list.
_VERIFY_EVERY = 4


@dataclass(frozen=True, eq=False)
class MatchQuestion:
    """A question about one picture.

    Attributes:
        kind: ``select``, ``classify``, or ``verify``, which counts in the row of ``classify``; with
            ``+new`` if reserved concepts are in the same picture or the same list.
        things: indices of the objects in question; of ``verify`` one that has the property and one
            that has not.
        texts: the list of ``classify``, the one text of ``select``, of ``verify`` the property and
            the names of the two objects.
        right: of ``select`` the indices of right objects, of ``classify`` that of the right text.
    """

    kind: str
    concept: str
    sample: str
    scene: RenderedScene
    things: Sequence[int]
    texts: Sequence[str]
    right: Sequence[int]


def about(toolbox: Toolbox, concept: str, *, split: str, count: int, seed: int) -> list[ToolAnswer]:
    """Return questions about a reserved concept: half ``select``, half ``classify``.

    A quarter of the latter ask ``verify_property`` of an object that shows the concept and of one
    that does not; they are right if both answers are.
    """
    return [_measure(toolbox, q) for q in islice(questions_about(concept, split, seed), count)]


def about_old(
    toolbox: Toolbox, concepts: Sequence[str], *, split: str, count: int, seed: int
) -> list[ToolAnswer]:
    """Return questions about old words, half of them (``+new``) beside reserved concepts.

    A ``classify+new`` question is the ``classify`` question about the same object with all of
    ``concepts`` added that are of the list's family.
    """
    return [_measure(toolbox, q) for q in islice(questions_about_old(concepts, split, seed), count)]


def questions_about(concept: str, split: str, seed: int) -> Iterator[MatchQuestion]:
    """Yield the questions of :func:`about`, two per scene, without end."""
    for place in counted():
        index, rng = _draw_scene(concept, seed, place)
        still = reserved_still(split, index, concept)
        objects = still.rendered.scene.objects
        showing = [int(i) for i in np.flatnonzero(still.shown)]
        others = [int(i) for i in np.flatnonzero(~still.shown)]
        sample, scene = f"{split}:{concept}:{index}", still.rendered
        yield MatchQuestion(
            "select", concept, sample, scene, range(len(objects)), [concept], showing
        )
        thing = showing[int(rng.integers(len(showing)))]
        if place % _VERIFY_EVERY == _VERIFY_EVERY - 1 and others:
            pair = (thing, others[int(rng.integers(len(others)))])
            texts = [concept, *(_name(concept, objects[i]) for i in pair)]
            yield MatchQuestion("verify", concept, sample, scene, pair, texts, [0])
        else:
            texts = [*_old_words(concept, objects[thing]), concept]
            rng.shuffle(texts)
            right = [texts.index(concept)]
            yield MatchQuestion("classify", concept, sample, scene, [thing], texts, right)


def questions_about_old(concepts: Sequence[str], split: str, seed: int) -> Iterator[MatchQuestion]:
    """Yield the questions of :func:`about_old`, four per scene or pair of scenes, without end."""
    for place in counted():
        yield from _old_four(concepts[place % len(concepts)], concepts, split, seed, place)


def _old_four(
    concept: str, concepts: Sequence[str], split: str, seed: int, place: int
) -> Iterator[MatchQuestion]:
    index, rng = _draw_scene(concept, seed, SCENES // 2 + place)
    number = _OLD_FIRST + seed * SCENES + place
    plain = render_scene(sample_scene(split, number))
    sample = f"{split}:old:{number}"
    unique = _unique(plain.scene.objects, rng)
    if unique is not None:
        yield _select_old("select", plain, sample, *unique)
    still = reserved_still(split, index, concept)
    scene, sample = still.rendered, f"{split}:{concept}:{index}"
    old = [int(i) for i in np.flatnonzero(~still.shown)]
    unique = _unique(scene.scene.objects, rng, old)
    if unique is not None:
        yield _select_old("select+new", scene, sample, *unique)
    if not old:
        return
    thing = old[int(rng.integers(len(old)))]
    family = "shape" if CONCEPTS[concept] == "shape" else "colour"
    word = getattr(scene.scene.objects[thing], family)
    words = list(SHAPES if family == "shape" else COLOURS)
    new = [other for other in concepts if CONCEPTS[other] == CONCEPTS[concept]]
    for kind, texts in (("classify", words), ("classify+new", [*words, *new])):
        order = [texts[int(i)] for i in rng.permutation(len(texts))]
        right = [order.index(word)]
        yield MatchQuestion(kind, word, sample, scene, [thing], order, right)


def _select_old(
    kind: str, scene: RenderedScene, sample: str, thing: int, phrase: str
) -> MatchQuestion:
    whole = range(len(scene.scene.objects))
    return MatchQuestion(kind, phrase, sample, scene, whole, [phrase], [thing])


def _unique(
    objects: Sequence[SceneObject], rng: np.random.Generator, among: Sequence[int] | None = None
) -> tuple[int, str] | None:
    """Draw an object, of those in ``among``, whose colour and shape no other object has."""
    phrases = [f"{thing.colour} {thing.shape}" for thing in objects]
    among = range(len(objects)) if among is None else among
    alone = [i for i in among if phrases.count(phrases[i]) == 1]
    if not alone:
        return None
    thing = alone[int(rng.integers(len(alone)))]
    return thing, phrases[thing]


def _old_words(concept: str, thing: SceneObject) -> list[str]:
    """Return the concept's list: the words of its family, none of them right."""
    if CONCEPTS[concept] == "shape":
        return list(SHAPES)
    return [word for word in COLOURS if word != thing.colour]


def _name(concept: str, thing: SceneObject) -> str:
    """Return an object's name in a question whether it shows the concept."""
    return "object" if CONCEPTS[concept] == "shape" else thing.shape


def _draw_scene(concept: str, seed: int, place: int) -> tuple[int, np.random.Generator]:
    """Return the index of a scene of the concept, and a generator for its question."""
    if not 0 <= place < SCENES:
        raise ValueError(f"question {place} of a seed; a seed has {SCENES} scenes of a concept")
    number = list(CONCEPTS).index(concept)
    return seed * SCENES + place, np.random.default_rng([29, seed, number, place])


def _measure(toolbox: Toolbox, question: MatchQuestion) -> ToolAnswer:
    session = toolbox.session(media_from(question.scene.image))
    kind = question.kind.replace("verify", "classify")
    right = float(_is_right(session, question))
    return ToolAnswer(kind, question.concept, question.sample, right)


def _is_right(session: ToolSession, question: MatchQuestion) -> bool:
    patches = [session.patch_ref("image0", question.scene.box(i)) for i in question.things]
    texts = list(question.texts)
    if question.kind == "verify":
        calls = [(patch, name, texts[0]) for patch, name in zip(patches, texts[1:], strict=True)]
        yes, no = (session.call("verify_property", each, {}, None) for each in calls)
        return bool(yes) and not no
    if question.kind.startswith("select"):
        return session.call("best_image_match", (patches, texts[0]), {}, None) in question.right
    answer = session.call("best_text_match", (patches[0], texts), {}, None)
    return texts.index(answer) in question.right
