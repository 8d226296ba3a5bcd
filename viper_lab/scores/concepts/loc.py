"""Questions to the detector: where the objects of a phrase are.

Three kinds. ``loc``: all is right, that is, the boxes that ``find`` keeps at the profile's
threshold and the objects that the phrase names match one to one at IoU of at least 0.5.
``loc first``: the best box, whatever its score, is such an object. ``loc phrase``: all is right
for a phrase of the concept and an old word (``red pyramid``, ``striped cube``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from viper.agreement import box_iou
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

SAME_BOX = 0.5
"""Least IoU of a box and the object that it finds."""

_OLD_FIRST = 9 * 10**8
"""Where the scenes without reserved concepts begin in a split, beyond all that others draw."""


def _answers(
    toolbox: Toolbox, still: RenderedScene, phrase: str, named: NDArray[np.bool_]
) -> tuple[float, float]:
    """Return whether all is right about the named objects, and whether the best box is."""
    wanted = [tuple(map(float, box)) for box in still.boxes[named]]
    session = toolbox.session(Media((still.image,)))
    found = detections(session, session.region(whole(still.image)), phrase)
    threshold = session.threshold("detector.threshold")
    kept = [item.box for item in found if item.score >= threshold]
    first = any(box_iou(found[0].box, box) >= SAME_BOX for box in wanted) if found else False
    return float(matches(kept, wanted)), float(first)


def matches(found: Sequence[PixelBox], wanted: Sequence[Sequence[float]]) -> bool:
    """Whether boxes and objects match one to one; each box, the best first, takes its nearest."""
    free = list(wanted)
    for box in found:
        overlaps = [box_iou(box, other) for other in free]
        if not overlaps or max(overlaps) < SAME_BOX:
            return False
        free.pop(int(np.argmax(overlaps)))
    return not free


def about(toolbox: Toolbox, concept: str, *, split: str, count: int, seed: int) -> list[ToolAnswer]:
    """The three kinds about a reserved concept in so many scenes; see :class:`Questions`."""
    asked = []
    for number in range(seed * SEED_STRIDE, seed * SEED_STRIDE + count):
        still = reserved_still(split, number, concept)
        sample, scene = f"{split}:{concept}:{number}", still.rendered
        right, first = _answers(toolbox, scene, concept, still.shown)
        things = scene.scene.objects
        phrase, named = _phrase(concept, things, int(np.flatnonzero(still.shown)[0]))
        asked += [
            ToolAnswer("loc", concept, sample, right),
            ToolAnswer("loc first", concept, sample, first),
            ToolAnswer("loc phrase", concept, sample, _answers(toolbox, scene, phrase, named)[0]),
        ]
    return asked


def about_old(
    toolbox: Toolbox, concepts: Sequence[str], *, split: str, count: int, seed: int
) -> list[ToolAnswer]:
    """So many old phrases, a shape or a coloured shape; see :class:`Questions`.

    Every other one in a scene where a reserved concept is shown by another object.
    """
    asked = []
    scenes = islice(old_scenes(concepts, split, seed, _OLD_FIRST), count)
    for index, (sample, still, together) in enumerate(scenes):
        things = still.scene.objects
        rng = np.random.default_rng([seed, index, 12])
        known = [thing for thing in things if not is_reserved(thing)]
        if not known:
            continue
        thing = known[int(rng.integers(len(known)))]
        words = (thing.colour, thing.shape) if rng.random() < 0.5 else (thing.shape,)
        named = np.array([set(words) <= {one.colour, one.shape} for one in things])
        right, _ = _answers(toolbox, still, " ".join(words), named)
        kind = "old with new" if together else "old alone"
        asked.append(ToolAnswer(kind, thing.shape, sample, right))
    return asked


def _phrase(
    concept: str, things: Sequence[SceneObject], shown: int
) -> tuple[str, NDArray[np.bool_]]:
    """The concept with an old word that is true of the object, and which objects it names."""
    attribute, thing = CONCEPTS[concept], things[shown]
    other = "colour" if attribute == "shape" else "shape"
    word = getattr(thing, other)
    text = f"{word} {concept}" if attribute == "shape" else f"{concept} {word}"
    named = [getattr(one, attribute) == concept and getattr(one, other) == word for one in things]
    return text, np.array(named)
