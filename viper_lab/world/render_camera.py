"""Cameras of pictures of the table, and the rays of their pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viper_lab.world.scene import Scene

Floats = NDArray[np.float32]

# Focal length of every camera, in image widths.
FOCAL = 1.06

# Sub-pixel positions by number of samples, in pixels from the pixel's centre.
SAMPLE_OFFSETS = {
    1: ((0.0, 0.0),),
    4: ((-0.125, -0.375), (0.375, -0.125), (0.125, 0.375), (-0.375, 0.125)),
}


@dataclass(frozen=True)
class Camera:
    """A pinhole camera.

    ``position`` is in table units (x right, y away, z up). ``yaw`` turns it to
    the left about z, ``pitch`` tilts it down; both in radians, 0 looks along +y.
    """

    position: tuple[float, float, float]
    yaw: float = 0.0
    pitch: float = 0.55
    focal: float = FOCAL

    @classmethod
    def around(
        cls, height: float = 5.0, yaw: float = 0.0, distance: float = 7.6, aim: float = 0.35
    ) -> Camera:
        """Return a camera on a circle around the table's middle.

        Args:
            height: above the table.
            yaw: angle about the table's middle, radians.
            distance: horizontal distance to the middle.
            aim: height above the table's middle of the point in the picture's centre.
        """
        position = (distance * math.sin(yaw), -distance * math.cos(yaw), height)
        return cls(position, yaw, math.atan2(height - aim, distance))

    @classmethod
    def for_scene(cls, scene: Scene) -> Camera:
        """Return the camera of a still: yaw and height from the scene, the rest from its seed."""
        rng = np.random.default_rng([scene.seed, 3])
        distance = float(rng.uniform(7.2, 8.0))
        aim = float(rng.uniform(0.2, 0.6))
        return cls.around(scene.camera_height, scene.camera_yaw, distance, aim)

    @property
    def axes(self) -> Floats:
        """Return the unit vectors right, up and forward as rows, float32 [3, 3]."""
        sy, cy = math.sin(self.yaw), math.cos(self.yaw)
        sp, cp = math.sin(self.pitch), math.cos(self.pitch)
        right = (cy, sy, 0.0)
        up = (-sy * sp, cy * sp, cp)
        forward = (-sy * cp, cy * cp, -sp)
        return np.array([right, up, forward], np.float32)

    def project(self, points: NDArray[np.floating], width: int, height: int) -> Floats:
        """Project points [N, 3] to (x, y, depth) [N, 3]: pixels from the top-left, axial depth."""
        local = (np.asarray(points, np.float32) - np.array(self.position, np.float32)) @ self.axes.T
        depth = np.maximum(local[:, 2], 1e-3)
        scale = self.focal * width / depth
        return np.stack(
            [width / 2 + local[:, 0] * scale, height / 2 - local[:, 1] * scale, local[:, 2]], 1
        )

    def rays(self, width: int, height: int, samples: int) -> Floats:
        """Return directions float32 [3, samples, H, W] of length 1 along the axis (t is depth)."""
        offsets = np.array(SAMPLE_OFFSETS[samples], np.float32)
        focal = np.float32(self.focal * width)
        xs = (np.arange(width, dtype=np.float32) + 0.5 - width / 2 + offsets[:, :1]) / focal
        ys = (np.arange(height, dtype=np.float32) + 0.5 - height / 2 + offsets[:, 1:]) / -focal
        right, up, forward = self.axes
        across = right[:, None, None] * xs
        along = up[:, None, None] * ys + forward[:, None, None]
        return across[:, :, None, :] + along[:, :, :, None]
