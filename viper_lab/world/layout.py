"""Random tabletop scenes that a small detector can perceive and that support interesting queries.

Objects keep enough distance to be visible. Some stand on others or on stands, because otherwise the
height of a box in the picture would reveal its depth. Many scenes repeat a shape or a colour, so
that "the second red cube from the left" has a meaning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from viper.errors import UsageError
from viper_lab.world.render_camera import Camera
from viper_lab.world.render_shapes import footprint, half_height, solid_of
from viper_lab.world.render_stage import Stage, mask_box
from viper_lab.world.scene import IMAGE_HEIGHT, IMAGE_WIDTH, Scene, SceneObject
from viper_lab.world.splits import combinations, scene_seed
from viper_lab.world.vocabulary import HELD_OUT_COMBINATIONS, MATERIALS, SIZES

# Least visible share of any object.
MIN_VISIBLE = 0.55

# Least width and height of any visible box, in pixels.
MIN_SIDE = 14

# Area of the objects: ``|x| <= TABLE_X`` and ``TABLE_Y[0] <= y <= TABLE_Y[1]``.
TABLE_X, TABLE_Y = 3.6, (-2.9, 3.0)

_STACKED, _RAISED = 0.20, 0.26
_SAME_SHAPE, _SAME_COLOUR = 0.5, 0.3
_HELD_OUT = 0.40
_GAP = 0.22
_OVERLAP = 0.45
_SPOTS = 25
_TRIES = 400


def sample_scene(
    split: str,
    index: int,
    *,
    min_objects: int = 3,
    max_objects: int = 6,
    objects: Sequence[SceneObject] | None = None,
) -> Scene:
    """Return scene ``index`` of a split; the same arguments always give the same scene.

    Args:
        split: ``train``, ``val`` or ``test``; only test scenes (two in five) hold
            ``HELD_OUT_COMBINATIONS``.
        index: counts from 0.
        min_objects: least number of objects.
        max_objects: largest number of objects, inclusive.
        objects: objects to place instead of random ones (reserved shapes, colours and patterns are
            allowed); only their looks are used, positions and yaws are sampled.

    Raises:
        UnknownNameError: there is no such split.
        UsageError: ``index`` is out of range, no layout was found for so many objects, or
            ``objects`` holds a held-out combination outside the test split.
    """
    seed = scene_seed(split, index)
    rng = np.random.default_rng([seed, 1])
    count = int(rng.integers(min_objects, max_objects + 1))
    # Decided once, so that layouts that are hard to place do not become rarer.
    unusual = split == "test" and rng.random() < _HELD_OUT
    for _ in range(_TRIES):
        looks = sample_looks(rng, count, unusual) if objects is None else objects
        _check_looks(split, looks)
        yaw, height = float(rng.uniform(-0.22, 0.22)), float(rng.uniform(4.3, 5.8))
        empty = Scene((), seed, yaw, height)
        placed = _place(looks, Camera.for_scene(empty), rng)
        if placed is None:
            continue
        scene = dataclasses.replace(empty, objects=tuple(placed))
        if _perceivable(scene):
            return scene
    raise UsageError(f"no clear layout of {count} objects in {_TRIES} tries; ask for fewer")


def _check_looks(split: str, looks: Sequence[SceneObject]) -> None:
    if split == "test":
        return
    for thing in looks:
        if (thing.colour, thing.shape) in HELD_OUT_COMBINATIONS:
            raise UsageError(
                f"a {thing.colour} {thing.shape} is held out for the test split, not {split!r}"
            )


def sample_looks(rng: np.random.Generator, count: int, unusual: bool) -> list[SceneObject]:
    """Draw a scene's looks, with duplicates on purpose; ``unusual`` includes a held-out one."""
    pairs = combinations("train")
    chosen = [pairs[int(rng.integers(len(pairs)))] for _ in range(count)]
    if count > 1 and rng.random() < _SAME_SHAPE:
        _repeat(rng, chosen, pairs, part=1)
    if count > 1 and rng.random() < _SAME_COLOUR:
        _repeat(rng, chosen, pairs, part=0)
    if unusual:
        held_out = sorted(HELD_OUT_COMBINATIONS)
        chosen[int(rng.integers(count))] = held_out[int(rng.integers(len(held_out)))]
    return [
        SceneObject(
            shape,
            colour,
            MATERIALS[int(rng.integers(len(MATERIALS)))],
            SIZES[int(rng.integers(len(SIZES)))],
            (0.0, 0.0, 0.0),
        )
        for colour, shape in chosen
    ]


def _repeat(
    rng: np.random.Generator,
    chosen: list[tuple[str, str]],
    pairs: Sequence[tuple[str, str]],
    part: int,
) -> None:
    """Let 2 to 4 of ``chosen`` share their colour (part 0) or shape (part 1) with the first."""
    times = min(int(rng.integers(2, 5)), len(chosen))
    where = rng.permutation(len(chosen))[:times]
    shared = chosen[where[0]][part]
    for place in where[1:]:
        other = chosen[place][1 - part]
        looks = (other, shared) if part == 1 else (shared, other)
        if looks not in pairs:
            fitting = [pair for pair in pairs if pair[part] == shared]
            looks = fitting[int(rng.integers(len(fitting)))]
        chosen[place] = looks


def _place(
    looks: Sequence[SceneObject], camera: Camera, rng: np.random.Generator
) -> list[SceneObject] | None:
    """Return positions for all objects, or None if they do not fit."""
    placed: list[SceneObject] = []
    views: list[_View] = []
    free: list[int] = []
    for look in looks:
        for _ in range(_SPOTS):
            thing, base = _drop(look, placed, free, rng)
            view = _View.of(thing, camera)
            apart = base is not None or _apart(thing, placed)
            if apart and view.fits() and not any(view.hides(other) for other in views):
                break
        else:
            return None
        if base is not None:
            free.remove(base)
        if look.shape in ("cube", "cylinder") and base is None and thing.position[2] < 1:
            free.append(len(placed))
        placed.append(thing)
        views.append(view)
    return placed


def _drop(
    look: SceneObject, placed: Sequence[SceneObject], free: Sequence[int], rng: np.random.Generator
) -> tuple[SceneObject, int | None]:
    """Place an object at random; return it and the index of its support, or None."""
    mode = rng.random()
    rise = half_height(look.shape, look.size)
    base = _support(look, placed, free, rng) if mode < _STACKED else None
    if base is not None:
        below = placed[base]
        x, y = (float(v + rng.uniform(-0.08, 0.08)) for v in below.position[:2])
        z = below.position[2] + half_height(below.shape, below.size) + rise
    else:
        x, y = float(rng.uniform(-TABLE_X, TABLE_X)), float(rng.uniform(*TABLE_Y))
        raised = _STACKED <= mode < _STACKED + _RAISED
        z = rise + (float(rng.uniform(0.5, 2.4)) if raised else 0.0)
    yaw = float(rng.uniform(-np.pi, np.pi))
    return dataclasses.replace(look, position=(x, y, z), yaw=yaw), base


def _support(
    look: SceneObject, placed: Sequence[SceneObject], free: Sequence[int], rng: np.random.Generator
) -> int | None:
    """Draw a flat-topped object of another colour that can carry ``look``, or None."""
    fitting = [
        i
        for i in free
        if placed[i].colour != look.colour and (placed[i].size == "big" or look.size == "small")
    ]
    return fitting[int(rng.integers(len(fitting)))] if fitting else None


def _apart(thing: SceneObject, placed: Sequence[SceneObject]) -> bool:
    """Return whether an object keeps its distance on the table from all others."""
    x, y, _ = thing.position
    own = footprint(thing.shape, thing.size) + _GAP
    return all(
        np.hypot(x - other.position[0], y - other.position[1])
        > own + footprint(other.shape, other.size)
        for other in placed
    )


class _View(NamedTuple):
    """Projected bounding box of an object; a cheap bound before casting rays."""

    x0: float
    y0: float
    x1: float
    y1: float
    depth: float

    @classmethod
    def of(cls, thing: SceneObject, camera: Camera) -> _View:
        spots = camera.project(solid_of(thing).corners(), IMAGE_WIDTH, IMAGE_HEIGHT)
        (x0, y0, _), (x1, y1, _) = spots.min(0).tolist(), spots.max(0).tolist()
        return cls(x0, y0, x1, y1, float(spots[:, 2].mean()))

    def fits(self) -> bool:
        inside = self.x0 >= 0 and self.y0 >= 0 and self.x1 <= IMAGE_WIDTH
        large = min(self.x1 - self.x0, self.y1 - self.y0) >= MIN_SIDE
        return inside and self.y1 <= IMAGE_HEIGHT and large

    def hides(self, other: _View) -> bool:
        """Return whether the nearer of the two covers too much of the other's box."""
        width = min(self.x1, other.x1) - max(self.x0, other.x0)
        height = min(self.y1, other.y1) - max(self.y0, other.y0)
        if width <= 0 or height <= 0:
            return False
        behind = self if self.depth > other.depth else other
        area = (behind.x1 - behind.x0) * (behind.y1 - behind.y0)
        return width * height > _OVERLAP * area


def _perceivable(scene: Scene) -> bool:
    """Return whether every object is inside the picture, large enough and not too hidden."""
    stage = Stage(Camera.for_scene(scene), IMAGE_WIDTH, IMAGE_HEIGHT, samples=1)
    ids, silhouettes = stage.ids(scene.objects, stands=True)
    for index, own in enumerate(silhouettes):
        mask = ids[0] == index
        if mask.sum() < (MIN_VISIBLE + 0.04) * own:
            return False
        x0, y0, x1, y1 = mask_box(mask)
        if not (x1 - x0 >= MIN_SIDE and y1 - y0 >= MIN_SIDE):
            return False
    return True
