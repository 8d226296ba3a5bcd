"""A scene with changed looks of some objects: the result of an ideal edit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from viper_lab.world.annotated import WORDS
from viper_lab.world.render_shapes import half_height
from viper_lab.world.scene import Scene, SceneObject
from viper_lab.world.splits import combinations


def looks_of(phrase: str) -> dict[str, str]:
    """Return the attributes of an object that a phrase states; other words are ignored.

    ``{"colour": "blue", "shape": "ball"}`` of "a blue ball".
    """
    return {WORDS[word]: word for word in phrase.split() if word in WORDS}


def with_looks(scene: Scene, indexes: Iterable[int], looks: Mapping[str, str | None]) -> Scene:
    """Return the scene with changed looks of some objects, each in its old place.

    Attributes that ``looks`` does not name are kept, except for a pattern.
    """
    chosen = set(indexes)
    things = [
        _changed(thing, looks) if index in chosen else thing
        for index, thing in enumerate(scene.objects)
    ]
    return dataclasses.replace(scene, objects=tuple(things))


def other_looks(thing: SceneObject, split: str) -> list[tuple[str, str]]:
    """Return the (colour, shape) pairs of a split that differ from an object in both."""
    return [(c, s) for c, s in combinations(split) if c != thing.colour and s != thing.shape]


def without(scene: Scene, indexes: Iterable[int]) -> Scene:
    """Return the scene without some objects."""
    left_out = set(indexes)
    things = (thing for index, thing in enumerate(scene.objects) if index not in left_out)
    return dataclasses.replace(scene, objects=tuple(things))


def _changed(old: SceneObject, looks: Mapping[str, str | None]) -> SceneObject:
    changes: dict[str, Any] = {"pattern": None, **looks}
    new = dataclasses.replace(old, **changes)
    x, y, z = old.position
    rise = half_height(new.shape, new.size) - half_height(old.shape, old.size)
    return dataclasses.replace(new, position=(x, y, z + rise))
