"""Fixed parts of every picture: the table, and stands under raised objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viper_lab.world.render_shapes import Solid, half_height, pole
from viper_lab.world.scene import SceneObject

_POLE_RADIUS = 0.06


@dataclass(frozen=True)
class TableTop:
    """The table top at z = 0: a rectangle in table units, and the floor ``drop`` below it."""

    left: float = -60.0
    front: float = -60.0
    right: float = 60.0
    back: float = 60.0
    drop: float = 3.0
    colour: tuple[float, float, float] = (0.56, 0.55, 0.53)

    @classmethod
    def for_seed(cls, seed: int) -> TableTop:
        """Return a table whose size and tone vary with the seed."""
        rng = np.random.default_rng([seed, 7])
        side, back = rng.uniform(4.6, 8.0), rng.uniform(4.2, 8.0)
        tone = rng.uniform(0.46, 0.60)
        warmth = rng.uniform(0.97, 1.03)
        colour = (float(tone * warmth), float(tone), float(tone / warmth))
        return cls(-float(side), -60.0, float(side), float(back), colour=colour)


def stands_under(objects: Sequence[SceneObject]) -> list[Solid]:
    """Return a pole for each object that rests neither on the table nor on another object."""
    poles = []
    for thing in objects:
        x, y, z = thing.position
        bottom = z - half_height(thing.shape, thing.size)
        if bottom > 0.03 and not any(_carries(other, thing, bottom) for other in objects):
            # Reaches into the object: a leaning ring's lowest point is not below its centre.
            poles.append(pole(x, y, 0.0, bottom + 0.1, _POLE_RADIUS))
    return poles


def _carries(below: SceneObject, thing: SceneObject, bottom: float) -> bool:
    top = below.position[2] + half_height(below.shape, below.size)
    aside = np.hypot(below.position[0] - thing.position[0], below.position[1] - thing.position[1])
    return below is not thing and abs(top - bottom) < 0.03 and bool(aside < 0.7)
