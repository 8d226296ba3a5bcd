"""The ray caster: a fixed camera, lamp and table, and pictures of objects on it.

Each object is cast only inside the window of its projected bounding box, and its shadow only inside
the window of its projected shadow. Rays have length 1 along the optical axis, so their parameter is
the depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viper_lab.world.render_camera import Camera
from viper_lab.world.render_props import TableTop, stands_under
from viper_lab.world.render_shading import Light, Surface, albedo, shade, to_pixels
from viper_lab.world.render_shapes import RADIUS, Solid, half_height, solid_of
from viper_lab.world.scene import SceneObject

Floats = NDArray[np.float32]
Window = tuple[slice, slice]

_POLE_ALBEDO = 0.30
_BACKGROUND, _POLE = -1, -2
_NOWHERE = np.float32(np.inf)
# Share of the way from the lamp at which a point counts as reached.
_REACHED = 0.999


@dataclass(frozen=True)
class Rendering:
    """A picture of some objects; index i everywhere means ``objects[i]``.

    Attributes:
        image: uint8 [H, W, 3], RGB.
        masks: bool [N, H, W], pixels of which at least half shows the object.
        depth: float32 [H, W], along the optical axis.
        visible: float32 [N], visible share of the silhouette inside the picture; 0 if none.
        cut: bool [N], the object's bounding box leaves the picture.
    """

    image: NDArray[np.uint8]
    masks: NDArray[np.bool_]
    depth: Floats
    visible: Floats
    cut: NDArray[np.bool_]

    @property
    def boxes(self) -> Floats:
        """Return the extents of the masks (x0, y0, x1, y1), float32 [N, 4]; NaN if invisible."""
        return np.array([mask_box(mask) for mask in self.masks], np.float32).reshape(-1, 4)


def mask_box(mask: NDArray[np.bool_]) -> tuple[float, float, float, float]:
    """Return the extent (x0, y0, x1, y1) of a mask, x1 and y1 exclusive; NaN for an empty one."""
    columns, rows = np.flatnonzero(mask.any(0)), np.flatnonzero(mask.any(1))
    if not columns.size:
        nan = float("nan")
        return (nan, nan, nan, nan)
    return (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))


class Stage:
    """A camera, a lamp and an empty table, which stay while objects move."""

    def __init__(
        self,
        camera: Camera,
        width: int,
        height: int,
        samples: int = 1,
        light: Light | None = None,
        table: TableTop | None = None,
    ) -> None:
        self.camera, self.width, self.height, self.samples = camera, width, height, samples
        self.light, self.table = light or Light(), table or TableTop()
        self._eye = np.array(camera.position, np.float32)
        self._rays = camera.rays(width, height, samples)
        self._set_table()
        self._lamps = self.light.positions(samples)

    def _set_table(self) -> None:
        """Set depth of the table and of the floor beyond it, and their colour lit and unlit."""
        table, rays, eye = self.table, self._rays, self._eye
        # The camera never rolls, so a whole row falls at the same rate.
        fall = np.minimum(rays[2, :, :, :1], np.float32(-1e-3))
        depth = -eye[2] / fall
        x, y = eye[0] + rays[0] * depth, eye[1] + rays[1] * depth
        beyond = (x < table.left) | (x > table.right) | (y < table.front) | (y > table.back)
        self._floor_depth = np.where(beyond, depth * np.float32(1 + table.drop / eye[2]), depth)
        self._on_table = ~beyond
        lamp = np.array(self.light.position, np.float32)
        away = (x[0] - lamp[0]) ** 2 + (y[0] - lamp[1]) ** 2
        falloff = 1 / (1 + away * np.float32(0.35 / lamp[2] ** 2)) ** np.float32(1.5)
        tone = 1 - np.float32(0.7) * beyond.mean(0, dtype=np.float32)
        colour = np.array(table.colour, np.float32)[:, None, None]
        self._floor_dark = colour * (tone * np.float32(self.light.ambient))
        self._floor_lamp = colour * (tone * falloff * np.float32(0.72 * self.light.strength))

    def ids(
        self, objects: Sequence[SceneObject], stands: bool = False
    ) -> tuple[NDArray[np.int8], list[int]]:
        """Return the first object on each ray, without shading.

        Returns:
            ids int8 [samples, H, W] (index of the object, negative for none), and the number
            of samples in each object's own silhouette, hidden or not.
        """
        with np.errstate(all="ignore"):
            solids = [solid_of(thing) for thing in objects]
            poles = stands_under(objects) if stands else []
            windows, _ = self._windows([solid.corners() for solid in (*solids, *poles)])
            ids, _, silhouettes = self._cast([*solids, *poles], windows, len(solids))
        return ids, silhouettes

    def _cast(
        self, solids: Sequence[Solid], windows: Sequence[Window | None], objects: int
    ) -> tuple[NDArray[np.int8], Floats, list[int]]:
        """Return ids, depth and silhouettes; the first ``objects`` solids are no poles."""
        ids = np.full(self._floor_depth.shape, _BACKGROUND, np.int8)
        depth = self._floor_depth.copy()
        silhouettes = [0] * objects
        for index, (solid, window) in enumerate(zip(solids, windows, strict=True)):
            if window is None:
                continue
            rays = self._rays[(slice(None), slice(None), *window)]
            t = solid.cast(self._eye, rays.reshape(3, -1)).reshape(rays.shape[1:])
            part = depth[(slice(None), *window)]
            nearer = t < part
            if index < objects:
                silhouettes[index] = int(np.count_nonzero(t < _NOWHERE))
            ids[(slice(None), *window)][nearer] = index if index < objects else _POLE
            np.copyto(part, t, where=nearer)
        return ids, depth, silhouettes

    def render(self, objects: Sequence[SceneObject], stands: bool = False) -> Rendering:
        """Render a picture of the objects on this stage.

        Args:
            objects: at any position, also off the table or out of view.
            stands: put a thin pole under objects without support.
        """
        with np.errstate(all="ignore"):
            solids = [solid_of(thing) for thing in objects]
            poles = stands_under(objects) if stands else []
            everything = [*solids, *poles]
            windows, cut = self._windows([solid.corners() for solid in everything])
            ids, depth, silhouettes = self._cast(everything, windows, len(solids))
            lit = self._table_light(everything)
            bare = (ids == _BACKGROUND).sum(0, dtype=np.float32)
            sums = (self._floor_dark + self._floor_lamp * lit) * bare
            if poles:
                sums += _POLE_ALBEDO * (ids == _POLE).sum(0, dtype=np.float32)
            for index, window in enumerate(windows[: len(solids)]):
                if window is not None:
                    part = (slice(None), *window)
                    light = self._paint(
                        index, objects[index], solids, ids[part], depth[part], window
                    )
                    sums[part] += light
            image = to_pixels((sums / self.samples).transpose(1, 2, 0))
        masks = np.zeros((len(objects), self.height, self.width), np.bool_)
        visible = np.zeros(len(objects), np.float32)
        for index, own in enumerate(silhouettes):
            samples = (ids == index).sum(0, dtype=np.int8)
            masks[index] = samples * 2 >= self.samples
            visible[index] = samples.sum() / own if own else 0
        return Rendering(image, masks, depth[0].copy(), visible, cut[: len(solids)])

    def _windows(self, points: Sequence[Floats]) -> tuple[list[Window | None], NDArray[np.bool_]]:
        """Return the pixels around each set of points [8, 3], and the sets that leave the picture.

        A set outside the picture, or reaching behind the camera, has no window.
        """
        if not points:
            return [], np.zeros(0, np.bool_)
        spots = self.camera.project(np.concatenate(points), self.width, self.height)
        spots = spots.reshape(len(points), -1, 3)
        low, high = np.floor(spots.min(1)), np.ceil(spots.max(1))
        size = np.array([self.width, self.height])
        cut = (low[:, :2] < 0).any(1) | (high[:, :2] > size).any(1)
        x0, y0 = np.maximum(low[:, :2] - 1, 0).astype(int).T
        x1, y1 = np.minimum(high[:, :2] + 1, size).astype(int).T
        visible = (x0 < x1) & (y0 < y1) & (spots[:, :, 2].min(1) > 0.2)
        rows = zip(visible, y0, y1, x0, x1, strict=True)
        return [(slice(a, b), slice(c, d)) if ok else None for ok, a, b, c, d in rows], cut

    def _table_light(self, solids: Sequence[Solid]) -> Floats:
        """Return the lamp's share that reaches each pixel of the table, float32 [H, W] in [0,
        1]."""
        dark = np.zeros(self._floor_depth.shape, np.bool_)
        casters = [solid for solid in solids if solid.centre[2] > 0]
        ground = [_onto_table(solid.corners(), lamp) for solid in casters for lamp in self._lamps]
        windows, _ = self._windows(ground)
        for turn, window in enumerate(windows):
            if window is None:
                continue
            caster, sample = divmod(turn, self.samples)
            part = (sample, *window)
            lamp = self._lamps[sample]
            rays = self._rays[(slice(None), *part)] * self._floor_depth[part]
            rays += (self._eye - lamp)[:, None, None]
            blocked = casters[caster].cast(lamp, rays.reshape(3, -1)) < 1
            dark[part] |= blocked.reshape(rays.shape[1:])
        lit = 1 - (dark & self._on_table).mean(0, dtype=np.float32)
        return _soften(lit) if self.samples > 1 else lit

    def _paint(
        self,
        index: int,
        thing: SceneObject,
        solids: Sequence[Solid],
        ids: NDArray[np.int8],
        depth: Floats,
        window: Window,
    ) -> Floats:
        """Return the light [3, h, w] of an object in its window; ids, depth [samples, h, w]."""
        solid = solids[index]
        which = ids == index
        at = np.flatnonzero(which)
        rays = self._rays[(slice(None), slice(None), *window)].reshape(3, -1).take(at, 1)
        points = self._eye[:, None] + rays * depth.reshape(-1).take(at)
        local = solid.to_local(points)
        normals = solid.normals(local)
        lamp = np.array(self.light.position, np.float32)
        to_lamp = lamp[:, None] - points
        lit = _light(index, solids, lamp, -to_lamp, (normals * to_lamp).sum(0) > 0)
        foot = solid.centre - np.array([0, 0, half_height(thing.shape, thing.size)], np.float32)
        above = (points - foot[:, None]) / np.float32(RADIUS[thing.size])
        surface = Surface(above, normals, _unit(rays), _unit(to_lamp), lit)
        base = albedo(thing.colour, thing.pattern, local)
        light = np.zeros((3, which.size), np.float32)
        light[:, at] = np.minimum(shade(surface, base, thing.material, self.light), 1)
        return light.reshape(3, *which.shape).sum(1)


def _light(
    index: int, solids: Sequence[Solid], lamp: Floats, from_lamp: Floats, facing: NDArray[np.bool_]
) -> Floats:
    """Return which of an object's points (``lamp + from_lamp`` [3, N]) are lit, [N], 0 or 1.

    Points that do not face the lamp are dark, and so are points behind another object.
    """
    lit = facing.astype(np.float32)
    own = solids[index]
    path = lamp - own.centre
    for other, solid in enumerate(solids):
        offset = solid.centre - own.centre
        along = float(np.clip(offset @ path / (path @ path), 0, 1))
        gap = float(np.linalg.norm(offset - along * path))
        if other == index or gap > solid.reach + own.reach + 0.1:
            continue
        todo = np.flatnonzero(lit)
        lit[todo[solid.cast(lamp, from_lamp.take(todo, 1)) < _REACHED]] = 0
    return lit


def _unit(vectors: Floats) -> Floats:
    return vectors / np.sqrt((vectors * vectors).sum(0))


def _soften(lit: Floats) -> Floats:
    """Return a 3 x 3 mean, which smooths the steps at a shadow's edge."""
    wide = np.pad(lit, 1, mode="edge")
    rows = wide[:-2] + wide[1:-1] + wide[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) * np.float32(1 / 9)


def _onto_table(points: Floats, lamp: Floats) -> Floats:
    """Return where the shadows of points [N, 3] below the lamp fall on the table."""
    above = np.maximum(points, (-np.inf, -np.inf, 0))
    share = lamp[2] / np.maximum(lamp[2] - above[:, 2:], 0.5)
    return lamp + (above - lamp) * share
