"""Where in the given pictures the references that a program returned are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from viper.sandbox import Ref
from viper.schema import Box, PixelBox
from viper.tools.edited import Origin
from viper.tools.media import Media
from viper.tools.roles import Pixels


def place_of(value: Ref, media: Media) -> tuple[str, PixelBox] | None:
    """The given picture that a patch is of and its box there, also where it is of an edited one.

    None where there is no such picture, or the box is empty or not finite.
    """
    image_id = str(value.fields[0])
    try:
        picture, origin = media.pixels(image_id), media.origin(image_id)
    except KeyError:
        return None
    numbers = [float(number) for number in value.fields[1:5]]
    if len(numbers) != 4 or not all(math.isfinite(number) for number in numbers):
        return None
    height, width = picture.shape[:2]
    x0, y0, x1, y1 = Box(*numbers).to_pixels(height)
    x0, x1 = (_bounded(x, width) + origin.x for x in (x0, x1))
    y0, y1 = (_bounded(y, height) + origin.y for y in (y0, y1))
    return None if x0 >= x1 or y0 >= y1 else (origin.image_id, (x0, y0, x1, y1))


def picture_of(value: Any, media: Media) -> tuple[Pixels, Origin] | None:
    """The pixels, ``uint8 [H, W, 3]``, that were returned as a picture, and where they are from.

    An array ``uint8 [3, H, W]``, a picture, or a part of one; None for anything else.
    """
    if isinstance(value, np.ndarray):
        if value.dtype != np.uint8 or value.ndim != 3 or value.shape[0] != 3 or not value.size:
            return None
        return value.transpose(1, 2, 0), Origin("image0" if media.video is None else "video0#0")
    if not isinstance(value, Ref) or value.kind not in ("patch", "image"):
        return None
    image_id = str(value.fields[0])
    try:
        picture, origin = media.pixels(image_id), media.origin(image_id)
    except KeyError:
        return None
    if value.kind == "image":
        return picture, origin
    place = place_of(value, media)
    if place is None:
        return None
    x0, y0, x1, y1 = place[1]
    left, top = math.floor(x0) - origin.x, math.floor(y0) - origin.y
    right, bottom = math.ceil(x1) - origin.x, math.ceil(y1) - origin.y
    part = Origin(origin.image_id, left + origin.x, top + origin.y)
    return picture[top:bottom, left:right], part


def label_of(value: Any) -> str:
    """What a patch is said to show; "" where nothing is said."""
    known = isinstance(value, Ref) and value.kind == "patch" and len(value.fields) > 6
    return str(value.fields[6]) if known else ""


def _bounded(value: float, limit: int) -> float:
    return round(min(max(value, 0.0), float(limit)), 2)
