"""Solids and their intersections with rays.

Every solid is a unit primitive under a rotation and a scale. Convex primitives intersect rays by
intervals, the torus by sphere tracing. Rays keep their length, so a parameter ``t`` means the same
in the world and in the solid's frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper_lab.world.render_shading import APPEARANCE
from viper_lab.world.scene import SceneObject

Floats = NDArray[np.float32]

# Nominal radius of an object of each size, in table units.
RADIUS = {"big": 0.90, "small": 0.50}

# Primitive, extents and contact radius of each shape.
SOLIDS: Mapping[str, Mapping[str, Any]] = APPEARANCE["shapes"]

_TORUS_MAJOR, _TORUS_MINOR = 0.74, 0.25
_RING_TILT = math.radians(24)
_TRACE_STEPS = 24
_MISS = np.float32(np.inf)


@dataclass(frozen=True)
class Solid:
    """A primitive placed in the world.

    ``rotation`` [3, 3] takes world to solid directions; ``scale`` [3] are the
    half extents along the solid's own axes.
    """

    primitive: str
    centre: Floats
    rotation: Floats
    scale: Floats

    def to_local(self, points: Floats) -> Floats:
        """Transform world points [3, N] to the unit frame."""
        local = (self.rotation @ (points - self.centre[:, None])) / self.scale[:, None]
        return local.astype(np.float32, copy=False)

    def directions_to_local(self, directions: Floats) -> Floats:
        """Transform world directions [3, N] to the unit frame."""
        turn = self.rotation / self.scale[:, None]
        return (turn @ directions).astype(np.float32, copy=False)

    def corners(self) -> Floats:
        """Return the eight corners [8, 3] of a box around the solid."""
        unit = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], np.float32)
        if self.primitive == "torus":
            unit *= np.array([1, 1, _TORUS_MINOR], np.float32)
        corners = (unit * self.scale) @ self.rotation + self.centre
        return corners.astype(np.float32, copy=False)

    @property
    def reach(self) -> float:
        """Return the radius of a ball about the centre that contains the solid."""
        if self.primitive in ("sphere", "torus"):
            return float(self.scale.max())
        return float(np.linalg.norm(self.scale))

    def cast(self, origin: Floats, directions: Floats) -> Floats:
        """Return where rays [3, N] from ``origin`` [3] (outside) enter the solid, as t [N] or
        inf."""
        near, far = _INTERVALS[self.primitive](
            self.to_local(origin[:, None]), self.directions_to_local(directions)
        )
        return np.where((near < far) & (near > 0), near, _MISS)

    def normals(self, local: Floats) -> Floats:
        """Return outward world normals [3, N] at surface points of the unit frame [3, N]."""
        normal = self.rotation.T @ (_GRADIENTS[self.primitive](local) / self.scale[:, None])
        return normal / np.sqrt((normal * normal).sum(0))


def solid_of(thing: SceneObject) -> Solid:
    """Return the solid of an object's shape, size, position and yaw."""
    shape, place = SOLIDS[thing.shape], np.array(thing.position, np.float32)
    scale = RADIUS[thing.size] * np.array(shape["extents"], np.float32)
    turn = _ring_rotation(thing.yaw) if thing.shape == "ring" else _yaw_rotation(thing.yaw)
    return Solid(shape["primitive"], place, turn, scale)


def pole(x: float, y: float, bottom: float, top: float, radius: float) -> Solid:
    """Return an upright thin cylinder from ``bottom`` to ``top``."""
    centre = np.array([x, y, (bottom + top) / 2], np.float32)
    scale = np.array([radius, radius, (top - bottom) / 2], np.float32)
    return Solid("tube", centre, np.eye(3, dtype=np.float32), scale)


def half_height(shape: str, size: str) -> float:
    """Return the height of an object's centre above its support, in table units."""
    if shape == "ring":
        return RADIUS[size] * (_TORUS_MAJOR * math.cos(_RING_TILT) + _TORUS_MINOR)
    return RADIUS[size] * SOLIDS[shape]["extents"][2]


def footprint(shape: str, size: str) -> float:
    """Return the radius of the circle on the table that an object needs at any yaw."""
    if shape == "plank":
        return RADIUS[size] * math.hypot(*SOLIDS[shape]["extents"][:2])
    square = math.sqrt(2) if shape in ("cube", "pyramid") else 1.0
    return RADIUS[size] * SOLIDS[shape]["extents"][0] * square


def _yaw_rotation(yaw: float) -> Floats:
    s, c = math.sin(yaw), math.cos(yaw)
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]], np.float32)


def _ring_rotation(yaw: float) -> Floats:
    """Return the rotation of a ring that leans back, so its hole faces the camera."""
    turn = 0.6 * math.sin(yaw)
    across = np.array([math.cos(turn), math.sin(turn), 0])
    axis = np.array(
        [
            math.sin(turn) * math.cos(_RING_TILT),
            -math.cos(turn) * math.cos(_RING_TILT),
            math.sin(_RING_TILT),
        ]
    )
    return np.array([across, np.cross(axis, across), axis], np.float32)


Interval = tuple[Floats, Floats]


def _slab(o: Floats, d: Floats) -> Interval:
    inverse = 1 / d
    first, second = (-1 - o) * inverse, (1 - o) * inverse
    return np.minimum(first, second), np.maximum(first, second)


def _roots(a: Floats, b: Floats, c: Floats) -> Interval:
    """Return the roots of ``a t² + 2 b t + c``; an empty interval if there are none."""
    inside = b * b - a * c
    root = np.sqrt(np.maximum(inside, 0))
    near, far = (-b - root) / a, (-b + root) / a
    return np.where(inside > 0, near, _MISS), far


def _box(o: Floats, d: Floats) -> Interval:
    near, far = _slab(o, d)
    return (
        np.maximum(np.maximum(near[0], near[1]), near[2]),
        np.minimum(np.minimum(far[0], far[1]), far[2]),
    )


def _sphere(o: Floats, d: Floats) -> Interval:
    return _roots((d * d).sum(0), (o * d).sum(0), (o * o).sum(0) - 1)


def _tube(o: Floats, d: Floats) -> Interval:
    (ox, oy, oz), (dx, dy, dz) = o, d
    near, far = _slab(oz, dz)
    side_near, side_far = _roots(dx * dx + dy * dy, ox * dx + oy * dy, ox * ox + oy * oy - 1)
    return np.maximum(near, side_near), np.minimum(far, side_far)


def _cone(o: Floats, d: Floats) -> Interval:
    """Intersect a cone with apex at z = 1 and base of radius 1 at z = -1."""
    (ox, oy, oz), (dx, dy, dz) = o, d
    below = (1 - oz) * 0.25
    a = dx * dx + dy * dy - dz * dz * 0.25
    b = ox * dx + oy * dy + below * dz
    c = ox * ox + oy * oy - below * (1 - oz)
    low, high = _roots(a, b, c)
    near, far = _slab(oz, dz)
    # A ray steeper than the side crosses each nappe once: only the lower one is the cone.
    steep = (a < 0) & (low < _MISS)
    side_near = np.where(steep, np.where(dz < 0, low, -_MISS), low)
    side_far = np.where(steep, np.where(dz < 0, _MISS, high), high)
    return np.maximum(near, side_near), np.minimum(far, side_far)


_PYRAMID_PLANES = (
    ((1, 0, 0.5), 0.5),
    ((-1, 0, 0.5), 0.5),
    ((0, 1, 0.5), 0.5),
    ((0, -1, 0.5), 0.5),
    ((0, 0, -1), 1.0),
)


def _pyramid(o: Floats, d: Floats) -> Interval:
    """Intersect a pyramid with apex at z = 1 and square base from -1 to 1 at z = -1."""
    near = np.full(np.broadcast_shapes(o[0].shape, d[0].shape), -_MISS, np.float32)
    far = np.full_like(near, _MISS)
    for normal, offset in _PYRAMID_PLANES:
        n = np.array(normal, np.float32)
        speed, gap = n @ d, offset - n @ o
        t = gap / speed
        np.maximum(near, np.where(speed < 0, t, -_MISS), out=near)
        np.minimum(far, np.where(speed > 0, t, _MISS), out=far)
    return near, far


def _dome(o: Floats, d: Floats) -> Interval:
    """Intersect the upper half of an ellipsoid: apex at z = 1, base of radius 1 at z = -1."""
    lift = np.array([[1.0], [1.0], [0.5]], np.float32)
    foot = np.array([[0.0], [0.0], [0.5]], np.float32)
    near, far = _sphere(o * lift + foot, d * lift)
    base = (-1 - o[2]) / d[2]
    rising = d[2] > 0
    return np.where(rising, np.maximum(near, base), near), np.where(
        rising, far, np.minimum(far, base)
    )


def _torus_distance(p: Floats) -> Floats:
    x, y, z = p
    ring = np.sqrt(x * x + y * y) - _TORUS_MAJOR
    return np.sqrt(ring * ring + z * z) - _TORUS_MINOR


def _torus(o: Floats, d: Floats) -> Interval:
    """Trace spheres between the bounding ball's faces; far is infinite for a hit."""
    near, far = _sphere(o, d)
    result = np.full(near.shape, _MISS, np.float32)
    todo = np.flatnonzero((near < far) & (far > 0))
    if todo.size:
        step = d.take(todo, 1)
        per_unit = 1 / np.sqrt((step * step).sum(0))
        t, end = np.maximum(near.take(todo), 0), far.take(todo)
        for turn in range(_TRACE_STEPS):
            gap = _torus_distance(o + step * t)
            t = t + gap * per_unit
            if turn in (5, 9, 14):
                met = gap < 0.004
                result[todo[met]] = t[met]
                going = np.flatnonzero(~met & (t < end))
                todo, step, t = todo.take(going), step.take(going, 1), t.take(going)
                per_unit, end, gap = per_unit.take(going), end.take(going), gap.take(going)
        met = gap < 0.012
        result[todo[met]] = t[met]
    return result, np.where(result < _MISS, _MISS, -_MISS)


_INTERVALS: dict[str, Callable[[Floats, Floats], Interval]] = {
    "box": _box,
    "sphere": _sphere,
    "tube": _tube,
    "cone": _cone,
    "torus": _torus,
    "pyramid": _pyramid,
    "dome": _dome,
}


def _box_gradient(p: Floats) -> Floats:
    size = np.abs(p)
    return np.sign(p) * (size >= size.max(0))


def _tube_gradient(p: Floats) -> Floats:
    x, y, z = p
    flat = np.abs(z) >= np.sqrt(x * x + y * y)
    return np.where(flat, np.stack([0 * x, 0 * y, np.sign(z)]), np.stack([x, y, 0 * z]))


def _cone_gradient(p: Floats) -> Floats:
    x, y, z = p
    side = np.stack([x, y, (1 - z) * 0.25 + 1e-4])
    base = np.stack([0 * x, 0 * y, 0 * z - 1])
    return np.where((z > -0.995) | (x * x + y * y > 0.98), side, base)


def _pyramid_gradient(p: Floats) -> Floats:
    planes = np.array([normal for normal, _ in _PYRAMID_PLANES], np.float32)
    offsets = np.array([offset for _, offset in _PYRAMID_PLANES], np.float32)
    return planes[np.argmax(planes @ p - offsets[:, None], 0)].T


def _dome_gradient(p: Floats) -> Floats:
    x, y, z = p
    side = np.stack([x, y, (z + 1) * 0.25])
    base = np.stack([0 * x, 0 * y, 0 * z - 1])
    return np.where((z > -0.995) | (x * x + y * y > 0.98), side, base)


def _torus_gradient(p: Floats) -> Floats:
    x, y, z = p
    factor = 1 - _TORUS_MAJOR / np.maximum(np.sqrt(x * x + y * y), 1e-3)
    return np.stack([x * factor, y * factor, z])


_GRADIENTS: dict[str, Callable[[Floats], Floats]] = {
    "box": _box_gradient,
    "sphere": lambda p: p,
    "tube": _tube_gradient,
    "cone": _cone_gradient,
    "torus": _torus_gradient,
    "pyramid": _pyramid_gradient,
    "dome": _dome_gradient,
}
