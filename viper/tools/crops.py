"""Crops of boxes for models, and the depth of boxes.

Training and inference share these functions, so a model sees the same kind of crop in both.
"""

from __future__ import annotations

import math

import numpy as np

from viper.models.vision.roles import Floats, Pixels
from viper.schema import PixelBox

# Context around a box, as a share of the picture's shorter side. The shipped models were trained on
# such crops; another margin shows them objects in sizes that they never saw.
DEFAULT_MARGIN = 0.1


# What models see of a box: its own pixels, a square window of the picture around it, or its pixels
# in the middle of a gray square, for processors that keep only the middle square of a picture.
CROP_SHAPES = ("box", "square", "padded")

# Gray around the pixels of a box: near the mean that CLIP's processors subtract.
GRAY = 128


def crop_of(image: Pixels, pixel_box: PixelBox, margin: float, shape: str) -> Pixels:
    """Return what models see of a box in one of :data:`CROP_SHAPES`, uint8 [H, W, 3].

    Args:
        image: uint8 [H, W, 3].
        pixel_box: (x0, y0, x1, y1) from the top-left corner; parts outside are ignored.
        margin: context on each side as a share of the picture's shorter side.
    """
    if shape == "square":
        return object_crop(image, pixel_box, margin)
    height, width = image.shape[:2]
    more = margin * min(height, width)
    x0, y0, x1, y1 = clip_box(pixel_box, width, height)
    rows, columns = _pixels(y0 - more, y1 + more, height), _pixels(x0 - more, x1 + more, width)
    crop = np.ascontiguousarray(image[rows, columns])
    if shape == "padded":
        missing = [max(crop.shape[:2]) - side for side in crop.shape[:2]]
        sides = [(pixels // 2, pixels - pixels // 2) for pixels in missing]
        crop = np.pad(crop, (*sides, (0, 0)), constant_values=GRAY)
    return crop


def object_crop(image: Pixels, pixel_box: PixelBox, margin: float = DEFAULT_MARGIN) -> Pixels:
    """Return a square window around a box; beyond the picture its border pixels are repeated.

    The margin is the same number of pixels for every box of a picture, not a share of the box. How
    much of the window the object fills then still tells its size, which a crop scaled to the object
    would hide. The side is never longer than the picture's longer side.

    Args:
        image: uint8 [H, W, 3].
        pixel_box: (x0, y0, x1, y1) from the top-left corner; parts outside are ignored.
        margin: context on each side as a share of ``min(H, W)``.

    Returns:
        uint8 [S, S, 3]; S >= 1, even for an empty box.
    """
    height, width = image.shape[:2]
    x0, y0, x1, y1 = clip_box(pixel_box, width, height)
    box_side = max(x1 - x0, y1 - y0)
    padded_side = min(box_side + 2.0 * margin * min(height, width), max(height, width))
    side = max(1, math.ceil(padded_side))
    left = round((x0 + x1 - side) / 2)
    top = round((y0 + y1 - side) / 2)
    columns = np.clip(np.arange(left, left + side), 0, width - 1)
    rows = np.clip(np.arange(top, top + side), 0, height - 1)
    return np.ascontiguousarray(image[rows[:, None], columns[None, :]])


def box_depth(depth: Floats, pixel_box: PixelBox) -> float:
    """Return the median depth over a box, or at its pixel if the box is empty.

    Args:
        depth: float32 [H, W].
        pixel_box: (x0, y0, x1, y1) from the top-left corner; parts outside are ignored.
    """
    height, width = depth.shape
    x0, y0, x1, y1 = clip_box(pixel_box, width, height)
    return float(np.median(depth[_pixels(y0, y1, height), _pixels(x0, x1, width)]))


def clip_box(pixel_box: PixelBox, width: float, height: float) -> PixelBox:
    """Return the part of a box inside the picture, with its corners in order."""
    xs = sorted((pixel_box[0], pixel_box[2]))
    ys = sorted((pixel_box[1], pixel_box[3]))
    x0, x1 = (min(max(x, 0.0), float(width)) for x in xs)
    y0, y1 = (min(max(y, 0.0), float(height)) for y in ys)
    return (x0, y0, x1, y1)


def _pixels(start: float, end: float, size: int) -> slice:
    """Return the pixels that ``[start, end)`` touches: at least one, inside ``[0, size)``."""
    first = min(max(int(start), 0), size - 1)
    return slice(first, max(first + 1, min(math.ceil(end), size)))
