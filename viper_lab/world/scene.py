"""Tabletop scenes: objects, camera, and the results of rendering."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viper.schema import PixelBox

# Pixels of a rendered still.
IMAGE_WIDTH, IMAGE_HEIGHT = 192, 144

# Pixels and frames of a rendered clip.
CLIP_WIDTH, CLIP_HEIGHT, CLIP_FRAMES = 160, 120, 32


@dataclass(frozen=True)
class SceneObject:
    """One object on (or above) the table.

    ``position`` is its centre in table units: x to the right, y away from the
    camera, z up, the table at z = 0. ``yaw`` is in radians about z.
    """

    shape: str
    colour: str
    material: str
    size: str
    position: tuple[float, float, float]
    yaw: float = 0.0
    pattern: str | None = None

    @property
    def phrase(self) -> str:
        """Return all attributes in a fixed order, e.g. ``small red metal cube``."""
        words = (self.size, self.pattern, self.colour, self.material, self.shape)
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Scene:
    """Objects in no particular order; ``seed`` reproduces the scene and its rendering."""

    objects: tuple[SceneObject, ...]
    seed: int
    camera_yaw: float = 0.0
    camera_height: float = 5.0


@dataclass(frozen=True)
class RenderedScene:
    """A picture with its exact ground truth, index i everywhere meaning ``scene.objects[i]``.

    Attributes:
        image: uint8 [H, W, 3], RGB.
        boxes: float32 [N, 4], (x0, y0, x1, y1) of the *visible* pixels, from the top-left corner.
        masks: bool [N, H, W], visible pixels.
        depth: float32 [H, W], distance along the optical axis; larger is farther.
        object_depths: float32 [N], median depth over each object's visible pixels.
        visible: float32 [N], visible share of the object's own silhouette, in [0, 1].
    """

    scene: Scene
    image: NDArray[np.uint8]
    boxes: NDArray[np.float32]
    masks: NDArray[np.bool_]
    depth: NDArray[np.float32]
    object_depths: NDArray[np.float32]
    visible: NDArray[np.float32]

    def box(self, index: int) -> PixelBox:
        """Return the visible box of an object, pixels from the top-left corner."""
        x0, y0, x1, y1 = (float(edge) for edge in self.boxes[index])
        return x0, y0, x1, y1


@dataclass(frozen=True)
class ClipEvent:
    """One event of a clip, in frames ``[start, end)``.

    ``kind`` is one of :data:`viper_lab.world.events.EVENT_KINDS`; ``actor`` and ``target`` index
    the clip's objects (``target`` only if two take part).
    """

    kind: str
    actor: int
    start: int
    end: int
    target: int | None = None


@dataclass(frozen=True)
class RenderedClip:
    """A clip with its exact events.

    Attributes:
        objects: the objects with their looks (their positions change over time).
        frames: uint8 [T, H, W, 3], RGB.
        boxes: float32 [T, N, 4], visible box of each object per frame; NaN if it is not visible.
        events: sorted by start.
    """

    objects: tuple[SceneObject, ...]
    frames: NDArray[np.uint8]
    boxes: NDArray[np.float32]
    events: tuple[ClipEvent, ...]
    seed: int
