"""Boxes with their labels, drawn on a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.models.edited import Tag
from viper.models.vision.roles import Pixels

COLOUR = (255, 64, 160)
_PADDING = 2
_LONGEST = 60


def tagged(pixels: Pixels, tags: Sequence[Tag]) -> Pixels:
    """The picture, ``uint8 [H, W, 3]``, with the boxes of tags and their labels."""
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(pixels))
    draw_tags(picture, tags)
    return np.asarray(picture)


def draw_tags(picture: Any, tags: Sequence[Tag], scale: float = 1.0) -> None:
    """Draws tags on a picture of Pillow's, their boxes times ``scale``.

    A label stands on its box, inside it where there is no room above; it is moved sideways
    rather than cut off.
    """
    from PIL import ImageDraw, ImageFont

    draw = ImageDraw.Draw(picture)
    line = max(1, round(min(picture.size) / 150))
    font = ImageFont.load_default(max(10, round(min(picture.size) / 24)))
    for tag in tags:
        x0, y0, x1, y1 = (side * scale for side in tag.box)
        if x1 - x0 < 1 or y1 - y0 < 1:
            continue
        draw.rectangle((x0, y0, x1 - 1, y1 - 1), outline=COLOUR, width=line)
        label = " ".join(tag.label.split())[:_LONGEST]
        if not label:
            continue
        left, top, right, bottom = draw.textbbox((0, 0), label, font=font)
        width, height = right - left + 2 * _PADDING, bottom - top + 2 * _PADDING
        x = max(0.0, min(x0, picture.width - width))
        y = y0 - height if y0 >= height else y0
        draw.rectangle((x, y, x + width, y + height), fill=COLOUR)
        place = (x + _PADDING - left, y + _PADDING - top)
        draw.text(place, label, fill="white", font=font)
