"""Scenes about reserved concepts, which no shipped model has seen, for experiments in learning.

Twelve words of :mod:`viper_lab.world.vocabulary` are absent from every default scene. Only this
module draws them: scenes in which some objects show a given concept among known ones, and similar
scenes in which none does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from viper.errors import UnknownNameError, UsageError
from viper_lab.world.id_maps import Ids, id_map
from viper_lab.world.layout import sample_looks, sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.scene import RenderedScene, Scene, SceneObject
from viper_lab.world.splits import scene_seed
from viper_lab.world.vocabulary import RESERVED_COLOURS, RESERVED_PATTERNS, RESERVED_SHAPES

Family = Literal["shape", "colour", "pattern"]

# Each reserved concept with its attribute.
CONCEPTS: Mapping[str, Family] = MappingProxyType(
    {
        **dict.fromkeys(RESERVED_SHAPES, "shape"),
        **dict.fromkeys(RESERVED_COLOURS, "colour"),
        **dict.fromkeys(RESERVED_PATTERNS, "pattern"),
    }
)

# Scenes of each concept, with or without it, in a split.
SCENES_PER_CONCEPT = 10**7

# Start of their range within a split's; other scenes count from 0 and stay below.
_FIRST = 5 * 10**8

_MOST_SHOWN = 2


@dataclass(frozen=True)
class ReservedStill:
    """A picture with its ground truth.

    Attributes:
        rendered: the picture with boxes, masks and depth, in the order of its objects.
        ids: uint8 [H, W], 0 for no object, i + 1 for object i.
        shown: bool [N], the objects that show the concept.
    """

    rendered: RenderedScene
    ids: Ids
    shown: NDArray[np.bool_]


def shows(thing: SceneObject, concept: str) -> bool:
    """Return whether an object has the concept as its shape, colour or pattern.

    Raises:
        UnknownNameError: ``concept`` is not reserved.
    """
    return bool(getattr(thing, _family(concept)) == concept)


def reserved_scene(split: str, index: int, concept: str, *, present: bool = True) -> Scene:
    """Return scene ``index`` of a concept; the same arguments always give the same scene.

    Args:
        split: ``train``, ``val`` or ``test``; held-out combinations stay out of all of them.
        index: counts from 0, for each concept and for ``present`` alike.
        concept: one of :data:`CONCEPTS`.
        present: one or two of the objects show the concept; False: none does, and all are objects
            of default scenes.

    Raises:
        UnknownNameError: there is no such split or reserved concept.
        UsageError: ``index`` is out of range.
    """
    family = _family(concept)
    if not 0 <= index < SCENES_PER_CONCEPT:
        raise UsageError(
            f"scene index {index} is outside [0, {SCENES_PER_CONCEPT}); choose another"
        )
    number = (list(CONCEPTS).index(concept) * 2 + (not present)) * SCENES_PER_CONCEPT + index
    rng = np.random.default_rng([scene_seed(split, _FIRST + number), 11])
    looks = sample_looks(rng, int(rng.integers(3, 7)), unusual=False)
    if present:
        for place in rng.permutation(len(looks))[: int(rng.integers(1, _MOST_SHOWN + 1))]:
            looks[place] = dataclasses.replace(looks[place], **{family: concept})
    return sample_scene(split, _FIRST + number, objects=looks)


def reserved_still(split: str, index: int, concept: str, *, present: bool = True) -> ReservedStill:
    """Render :func:`reserved_scene` with boxes, an id map, and the objects that show the concept.

    Raises:
        UnknownNameError, UsageError: as there.
    """
    scene = reserved_scene(split, index, concept, present=present)
    showing = np.array([shows(thing, concept) for thing in scene.objects], np.bool_)
    return ReservedStill(render_scene(scene), id_map(scene), showing)


def _family(concept: str) -> Family:
    if concept not in CONCEPTS:
        raise UnknownNameError("reserved concept", concept, CONCEPTS)
    return CONCEPTS[concept]
