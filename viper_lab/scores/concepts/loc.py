"""Questions to the detector: where are the objects of a phrase?

There are three kinds. ``loc``: the boxes that ``find`` keeps at the profile's threshold match the
objects of the phrase one to one at IoU of at least 0.5. ``loc first``: the best box, whatever its
score, is such an object. ``loc phrase``: as ``loc``, for a phrase of the concept and an old word
(``red pyramid``, ``striped cube``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from viper.agreement import SAME_BOX, box_iou, same_box
from viper.models.media import Media
from viper.schema import PixelBox
from viper.tools.tool_functions import detections
from viper.tools.toolbox import Toolbox
from viper_lab.scores.concepts.measurement import (
    SEED_STRIDE,
    ToolAnswer,
    is_reserved,
    old_scenes,
    whole,
)
from viper_lab.world.reserved import CONCEPTS, reserved_still
from viper_lab.world.scene import RenderedScene, SceneObject

# First scene without reserved concepts in a split, after all scenes that others draw.
_OLD_FIRST = 9 * 10**8


def _answers(
    toolbox: Toolbox, still: RenderedScene, phrase: str, named: NDArray[np.bool_]
) -> tuple[float, float]:
    """Return two flags: all boxes of the named objects are right, the best box is right."""
    targets = [tuple(map(float, box)) for box in still.boxes[named]]
    session = toolbox.session(Media((still.image,)))
    boxes = detections(session, session.region(whole(still.image)), phrase)
    threshold = session.threshold("detector.threshold")
    accepted = [item.box for item in boxes if item.score >= threshold]
    first = any(same_box(boxes[0].box, box) for box in targets) if boxes else False
    return float(matches(accepted, targets)), float(first)


def matches(boxes: Sequence[PixelBox], targets: Sequence[Sequence[float]]) -> bool:
    """Return whether boxes and objects match one to one; each box takes its nearest object."""
    free = list(targets)
    for box in boxes:
        overlaps = [box_iou(box, other) for other in free]
        if not overlaps or max(overlaps) < SAME_BOX:
            return False
        free.pop(int(np.argmax(overlaps)))
    return not free


def about(toolbox: Toolbox, concept: str, *, split: str, count: int, seed: int) -> list[ToolAnswer]:
    """Return the three kinds about a reserved concept, one scene each; see :class:`Questions`."""
    answers = []
    for number in range(seed * SEED_STRIDE, seed * SEED_STRIDE + count):
        still = reserved_still(split, number, concept)
        sample, scene = f"{split}:{concept}:{number}", still.rendered
        right, first = _answers(toolbox, scene, concept, still.shown)
        things = scene.scene.objects
        phrase, named = _phrase(concept, things, int(np.flatnonzero(still.shown)[0]))
        answers += [
            ToolAnswer("loc", concept, sample, right),
            ToolAnswer("loc first", concept, sample, first),
            ToolAnswer("loc phrase", concept, sample, _answers(toolbox, scene, phrase, named)[0]),
        ]
    return answers


def about_old(
    toolbox: Toolbox, concepts: Sequence[str], *, split: str, count: int, seed: int
) -> list[ToolAnswer]:
    """Return ``count`` old phrases, a shape or a coloured shape; see :class:`Questions`.

    In every other scene another object shows a reserved concept.
    """
    answers = []
    scenes = islice(old_scenes(concepts, split, seed, _OLD_FIRST), count)
    for index, (sample, still, together) in enumerate(scenes):
        things = still.scene.objects
        rng = np.random.default_rng([seed, index, 12])
        old = [thing for thing in things if not is_reserved(thing)]
        if not old:
            continue
        thing = old[int(rng.integers(len(old)))]
        words = (thing.colour, thing.shape) if rng.random() < 0.5 else (thing.shape,)
        named = np.array([set(words) <= {other.colour, other.shape} for other in things])
        right, _ = _answers(toolbox, still, " ".join(words), named)
        kind = "old with new" if together else "old alone"
        answers.append(ToolAnswer(kind, thing.shape, sample, right))
    return answers


def _phrase(
    concept: str, things: Sequence[SceneObject], index: int
) -> tuple[str, NDArray[np.bool_]]:
    """Return the concept with an old word that is true of the object, and the objects it names."""
    attribute, thing = CONCEPTS[concept], things[index]
    other = "colour" if attribute == "shape" else "shape"
    word = getattr(thing, other)
    text = f"{word} {concept}" if attribute == "shape" else f"{concept} {word}"
    named = [
        getattr(thing, attribute) == concept and getattr(thing, other) == word for thing in things
    ]
    return text, np.array(named)
