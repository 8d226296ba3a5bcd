"""Changes of pictures that need no model: pixels in, pixels out.

Pictures are ``uint8 [H, W, 3]`` RGB, masks bool [H, W] of the same size, boxes
``(x0, y0, x1, y1)`` in pixels from the top-left corner, the end exclusive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.models.vision.roles import Mask, Pixels

BLUR_SHARE = 1 / 60
"""Radius of the blur as a share of the picture's shorter side."""


def color_pop(pixels: Pixels, mask: Mask) -> Pixels:
    """The picture in grey except where the mask holds.

    Grey is the luma of ITU-R 601-2, as Pillow converts.
    """
    from PIL import Image

    grey = np.asarray(Image.fromarray(pixels).convert("L"))
    return np.where(mask[..., None], pixels, grey[..., None])


def blurred_background(pixels: Pixels, mask: Mask) -> Pixels:
    """The picture with a Gaussian blur except where the mask holds."""
    from PIL import Image, ImageFilter

    radius = max(2.0, BLUR_SHARE * min(pixels.shape[:2]))
    blurred = np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(radius)))
    return np.where(mask[..., None], pixels, blurred)


def painted(pixels: Pixels, mask: Mask, painting: Any) -> Pixels:
    """The picture with the painting's pixels where the mask holds, and its own elsewhere.

    Raises:
        ValueError: the painting is no picture of the same size.
    """
    found = np.asarray(painting)
    if found.shape != pixels.shape or found.dtype != np.uint8:
        raise ValueError(
            f"a painting of {found.dtype} {found.shape}; expected uint8 {pixels.shape}"
        )
    return np.where(mask[..., None], found, pixels)


def covered(pixels: Pixels, boxes: Sequence[Sequence[int]], picture: Any) -> Pixels:
    """The picture with another one over the middle of each box.

    Args:
        picture: a square one of Pillow's with an alpha channel; as wide as the box's longer side.
    """
    from PIL import Image

    canvas = Image.fromarray(pixels).convert("RGBA")
    for x0, y0, x1, y1 in boxes:
        side = max(x1 - x0, y1 - y0, 1)
        sized = picture.resize((side, side), Image.Resampling.LANCZOS)
        layer = Image.new("RGBA", canvas.size)
        layer.paste(sized, ((x0 + x1 - side) // 2, (y0 + y1 - side) // 2))
        canvas = Image.alpha_composite(canvas, layer)
    return np.asarray(canvas.convert("RGB"))


def box_mask(size: tuple[int, int], box: Sequence[int]) -> Mask:
    """A mask of (width, height) ``size`` that holds in the box."""
    mask = np.zeros((size[1], size[0]), np.bool_)
    x0, y0, x1, y1 = box
    mask[y0:y1, x0:x1] = True
    return mask
