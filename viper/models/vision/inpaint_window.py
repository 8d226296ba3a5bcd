"""The square of a picture that an inpainting model reads and paints in.

Training and inference share these functions, so a model sees the same kind of square in both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from viper.models.vision.roles import Mask, Pixels

Value = TypeVar("Value", bound=np.generic)

# Context on each side of the masked part, as a share of its longer side.
PADDING = 0.25


@dataclass(frozen=True)
class Window:
    """Square of a picture, in whole pixels from its top-left corner; it may extend beyond it."""

    left: int
    top: int
    side: int

    def cut(self, array: NDArray[Value]) -> NDArray[Value]:
        """Return the square ``[side, side, ...]`` of an array ``[H, W, ...]``.

        Border pixels are repeated beyond the array.
        """
        rows, columns = self._places(*array.shape[:2])
        return np.ascontiguousarray(array[rows[:, None], columns[None, :]])

    def paste(self, pixels: Pixels, mask: Mask, painted: Pixels) -> Pixels:
        """Return a copy of a picture with the square's pixels where the mask is True.

        Args:
            pixels: uint8 [H, W, 3].
            mask: bool [H, W].
            painted: uint8 [side, side, 3].
        """
        ys, xs = np.nonzero(mask)
        result = pixels.copy()
        result[ys, xs] = painted[ys - self.top, xs - self.left]
        return result

    def _places(self, height: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        steps = np.arange(self.side)
        rows, columns = self.top + steps, self.left + steps
        return np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)


def window_around(mask: Mask, least_side: int, padding: float = PADDING) -> Window:
    """Return the square around all masked pixels, with context, inside the picture if it fits.

    Several masked places share one square.

    Args:
        mask: bool [H, W], some of it True.
        least_side: pixels; a smaller square would be little more than enlarged noise.
        padding: context on each side as a share of the longer side of the masked part.
    """
    height, width = mask.shape
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    longer = int(max(bottom - top, right - left))
    side = max(math.ceil(longer * (1 + 2 * padding)), least_side)
    # Context beyond the picture's longer side would only repeat the border.
    side = max(min(side, max(height, width)), longer)
    return Window(_start(left, right, side, width), _start(top, bottom, side, height), side)


def _start(first: int, end: int, side: int, size: int) -> int:
    """Return the start of a square along one axis: around ``[first, end)``, moved inside if it
    fits.
    """
    start = round((int(first) + int(end) - side) / 2)
    if side >= size:
        return round((size - side) / 2)
    return min(max(start, 0), size - side)


def resize_square(pixels: Pixels, side: int) -> Pixels:
    """Return a square picture at another size, uint8 [side, side, 3], with smooth scaling."""
    from PIL import Image

    if len(pixels) == side:
        return pixels
    return np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC))


def resize_mask(mask: Mask, side: int) -> Mask:
    """Return a square mask at another size, bool [side, side], without values in between."""
    from PIL import Image

    image = Image.fromarray(mask.astype(np.uint8))
    return np.asarray(image.resize((side, side), Image.Resampling.NEAREST)).astype(bool)
