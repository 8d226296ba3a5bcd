"""Questions to the detector: where the objects of a phrase are.

Three kinds. ``loc``: all is right, that is, the boxes that ``find`` keeps at the profile's
threshold and the objects that the phrase names match one to one at IoU of at least 0.5.
``loc first``: the best box, whatever its score, is such an object. ``loc phrase``: all is right
for a phrase of the concept and an old word (``red pyramid``, ``striped cube``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viper.agreement import box_iou
from viper.models.media import Media
from viper.models.vision.roles import Detection
from viper.sandbox import Ref
from viper.schema import PixelBox
from viper.tools.abilities import detections
from viper.tools.hub import ToolHub
from viper_lab.scores.concepts.asked import Asked
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS, reserved_still
from viper_lab.world.scene import RenderedScene, SceneObject

SAME_BOX = 0.5
"""Least IoU of a box and the object that it finds."""

SEED_STRIDE = 10_000
"""Scenes of each seed."""

_OLD_FIRST = 9 * 10**8
"""Where the scenes without reserved concepts begin in a split, beyond all that others draw."""


@dataclass(frozen=True)
class _Look:
    """A picture with what the detector is asked about it."""

    sample: str
    still: RenderedScene

    def found(self, hub: ToolHub, phrase: str) -> tuple[list[Detection], float]:
        """All boxes of a phrase, best first, and the threshold above which ``find`` keeps them."""
        session = hub.session(Media((self.still.image,)))
        height, width = self.still.image.shape[:2]
        region = session.region(Ref("image", ("image0", width, height)))
        return detections(session, region, phrase), session.threshold("detector.threshold")

    def answers(self, hub: ToolHub, phrase: str, shown: NDArray[np.bool_]) -> tuple[float, float]:
        """Whether all is right, and whether the best box is."""
        wanted = [tuple(map(float, box)) for box in self.still.boxes[shown]]
        found, threshold = self.found(hub, phrase)
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


def about(hub: ToolHub, concept: str, *, split: str, count: int, seed: int) -> list[Asked]:
    """The three kinds about a reserved concept in so many scenes; see :class:`Questions`."""
    asked = []
    for index in range(count):
        still = reserved_still(split, seed * SEED_STRIDE + index, concept)
        look = _Look(f"{split}:{concept}:{seed * SEED_STRIDE + index}", still.rendered)
        right, first = look.answers(hub, concept, still.shown)
        asked += [
            Asked("loc", concept, look.sample, right),
            Asked("loc first", concept, look.sample, first),
        ]
        things = still.rendered.scene.objects
        phrase, named = _phrase(concept, things, int(np.flatnonzero(still.shown)[0]))
        right, _ = look.answers(hub, phrase, named)
        asked.append(Asked("loc phrase", concept, look.sample, right))
    return asked


def about_old(
    hub: ToolHub, concepts: Sequence[str], *, split: str, count: int, seed: int
) -> list[Asked]:
    """So many old phrases, a shape or a coloured shape; see :class:`Questions`.

    Every other one in a scene where a reserved concept is shown by another object.
    """
    asked = []
    for index, (look, together) in enumerate(_old_scenes(concepts, split, count, seed)):
        things = look.still.scene.objects
        rng = np.random.default_rng([seed, index, 12])
        known = [thing for thing in things if not _reserved(thing)]
        if not known:
            continue
        thing = known[int(rng.integers(len(known)))]
        words = (thing.colour, thing.shape) if rng.random() < 0.5 else (thing.shape,)
        named = np.array([set(words) <= {one.colour, one.shape} for one in things])
        right, _ = look.answers(hub, " ".join(words), named)
        kind = "old with new" if together else "old alone"
        asked.append(Asked(kind, thing.shape, look.sample, right))
    return asked


def _old_scenes(
    concepts: Sequence[str], split: str, count: int, seed: int
) -> Iterator[tuple[_Look, bool]]:
    for index in range(count):
        number = (seed + 1) * SEED_STRIDE - 1 - index
        if index % 2:
            scene = sample_scene(split, _OLD_FIRST + number)
            yield _Look(f"{split}:{number}", render_scene(scene)), False
        else:
            concept = concepts[index // 2 % len(concepts)]
            still = reserved_still(split, number, concept)
            yield _Look(f"{split}:{concept}:{number}", still.rendered), True


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


def _reserved(thing: SceneObject) -> bool:
    return any(word in CONCEPTS for word in (thing.colour, thing.shape, thing.pattern) if word)
