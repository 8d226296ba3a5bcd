"""Clips: a few objects on a table to which things happen, simulated and rendered.

:func:`sample_clip` is light (no pixels): objects, positions and exact events.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from viper.world.events import object_name
from viper.world.motion import ScriptImpossibleError, draw_script, perform
from viper.world.scene import ClipEvent, SceneObject
from viper.world.vocabulary import COLOURS, HELD_OUT_COMBINATIONS, MATERIALS, SHAPES, SIZES, SPLITS

RADII = {"big": 0.5, "small": 0.34}
WANTED_KINDS = ("hit", "hit", "hit", "stop", "stop", None)
"""A clip must hold the kind drawn from here: hits and stops are hard to place by chance."""

TRIES_PER_SCRIPT = 60


@dataclass(frozen=True)
class Clip:
    """What happens in a clip, before anything is drawn.

    Attributes:
        objects: 2 to 4, no two of the same colour and shape; ``position`` is the first one.
        events: 2 to 5, sorted by start. Two events do not overlap in time, save a
            hit and the start that it causes (see ``events.is_consequence``).
        positions: float32 [T, N, 3], centres in table units; NaN while not there.
        seed: reproduces the clip and its rendering.
    """

    objects: tuple[SceneObject, ...]
    events: tuple[ClipEvent, ...]
    positions: NDArray[np.float32]
    seed: int

    @property
    def names(self) -> tuple[str, ...]:
        """What the objects are called, e.g. ``red cube``."""
        return tuple(object_name(thing) for thing in self.objects)


def clip_seed(split: str, index: int) -> int:
    """The seed of a clip; no two splits share one."""
    return SPLITS.index(split) * 100_000_000 + index


def sample_clip(split: str, index: int) -> Clip:
    """The clip number ``index`` of a split; the same every time.

    Objects whose (colour, shape) is held out appear in the test split only.
    """
    return clip_from_seed(clip_seed(split, index), held_out=split == "test")


def clip_from_seed(seed: int, *, held_out: bool = False) -> Clip:
    """The clip that a seed stands for; ``held_out`` allows held-out (colour, shape) pairs."""
    draw = random.Random(f"clip {seed}")
    wanted = draw.choice(WANTED_KINDS)
    while True:
        things = _draw_objects(draw, held_out)
        radii = [RADII[thing.size] for thing in things]
        heights = radii
        try:
            steps, first_moving = draw_script(draw, len(things))
        except ScriptImpossibleError:
            continue
        if wanted and wanted not in {step.kind for step in steps}:
            continue
        for _ in range(TRIES_PER_SCRIPT):
            try:
                positions, events = perform(draw, steps, first_moving, radii, heights)
            except ScriptImpossibleError:
                continue
            placed = [
                replace(thing, position=_first_position(positions[:, i]))
                for i, thing in enumerate(things)
            ]
            return Clip(tuple(placed), events, positions, seed)


def _first_position(track: NDArray[np.float32]) -> tuple[float, float, float]:
    x, y, z = track[~np.isnan(track[:, 0])][0]
    return float(x), float(y), float(z)


def _draw_objects(draw: random.Random, held_out: bool) -> list[SceneObject]:
    """2 to 4 objects of different names."""
    pairs = [
        (colour, shape)
        for colour in COLOURS
        for shape in SHAPES
        if held_out or (colour, shape) not in HELD_OUT_COMBINATIONS
    ]
    return [
        SceneObject(
            shape=shape,
            colour=colour,
            material=draw.choice(MATERIALS),
            size=draw.choice(SIZES),
            position=(0.0, 0.0, 0.0),
            yaw=draw.uniform(0, 2 * math.pi),
        )
        for colour, shape in draw.sample(pairs, draw.choice((2, 3, 3, 4)))
    ]
