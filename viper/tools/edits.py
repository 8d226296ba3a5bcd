"""Edits of pictures that need no model: pixels in, pixels out.

Pictures are ``uint8 [H, W, 3]`` RGB, masks bool [H, W] of the same size, boxes
``(x0, y0, x1, y1)`` in pixels from the top-left corner, the end exclusive.

Emoji are pictures of the package ``augly`` (extra: ``emoji``), of which only the files are read.
Source: VisProg (Gupta and Kembhavi 2023) and CLOVA (Gao et al. 2024, table 2) take them from there
as well, so the names are the same as in published programs.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from viper.errors import MissingExtraError, ToolError
from viper.models.edited import Tag
from viper.models.libraries import Image
from viper.models.vision.roles import Mask, Pixels

# Blur radius as a share of the picture's shorter side: things blur away and the place remains.
BLUR_SHARE = 1 / 60

# Emoji that instructions name, with the phrase for each.
EMOJIS: Mapping[str, str] = {
    "smiling_face": "a smiling face",
    "cat_face": "a cat face",
    "panda": "a panda",
    "ghost": "a ghost",
    "crown": "a crown",
    "star": "a star",
}


def color_pop(pixels: Pixels, mask: Mask) -> Pixels:
    """Return the picture in grey except where the mask is True.

    Grey is the luma of ITU-R 601-2, as Pillow converts.
    """
    grey = np.asarray(Image.fromarray(pixels).convert("L"))
    return np.where(mask[..., None], pixels, grey[..., None])


def blur_outside(pixels: Pixels, mask: Mask) -> Pixels:
    """Return the picture with a Gaussian blur except where the mask is True."""
    from PIL import ImageFilter

    radius = max(2.0, BLUR_SHARE * min(pixels.shape[:2]))
    blurred = np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(radius)))
    return np.where(mask[..., None], pixels, blurred)


def paste_inside(pixels: Pixels, mask: Mask, painting: Any) -> Pixels:
    """Return the picture with the painting's pixels where the mask is True.

    Raises:
        ValueError: the painting is not a picture of the same size.
    """
    inside = np.asarray(painting)
    if inside.shape != pixels.shape or inside.dtype != np.uint8:
        raise ValueError(
            f"a painting of {inside.dtype} {inside.shape}; expected uint8 {pixels.shape}"
        )
    return np.where(mask[..., None], inside, pixels)


def cover_boxes(pixels: Pixels, boxes: Sequence[Sequence[int]], picture: Any) -> Pixels:
    """Return the picture with another one over the middle of each box.

    Args:
        picture: square Pillow image with an alpha channel; resized to the box's longer side.
    """
    canvas = Image.fromarray(pixels).convert("RGBA")
    for x0, y0, x1, y1 in boxes:
        side = max(x1 - x0, y1 - y0, 1)
        sized = picture.resize((side, side), Image.Resampling.LANCZOS)
        layer = Image.new("RGBA", canvas.size)
        layer.paste(sized, ((x0 + x1 - side) // 2, (y0 + y1 - side) // 2))
        canvas = Image.alpha_composite(canvas, layer)
    return np.asarray(canvas.convert("RGB"))


def box_mask(size: tuple[int, int], box: Sequence[int]) -> Mask:
    """Return a mask of (width, height) ``size`` that is True in the box."""
    mask = np.zeros((size[1], size[0]), np.bool_)
    x0, y0, x1, y1 = box
    mask[y0:y1, x0:x1] = True
    return mask


# A pink that neither photographs nor the tabletop world have.
COLOUR = (255, 64, 160)
_PADDING = 2
# Characters of a drawn label; longer ones would cover the picture.
_LONGEST = 60


def draw_tagged(pixels: Pixels, tags: Sequence[Tag]) -> Pixels:
    """Return the picture, ``uint8 [H, W, 3]``, with the boxes and labels of the tags."""
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    draw_tags(picture, tags)
    return np.asarray(picture)


def draw_tags(picture: Any, tags: Sequence[Tag], scale: float = 1.0) -> None:
    """Draw tags on a Pillow image, their boxes times ``scale``.

    A label stands above its box, or inside if there is no room above. It is moved sideways rather
    than cut off.
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


def emoji_picture(name: str) -> Any:
    """Return the emoji of that name as a square Pillow image, RGBA.

    Names are words joined by underscores, such as ``face_with_tongue``. Spaces, hyphens, capitals
    and surrounding colons are accepted as well.

    Raises:
        ToolError: no emoji has that name; the message lists the nearest names.
        MissingExtraError: the package is not installed.
    """
    files = emoji_files()
    stem = re.sub(r"[\s_-]+", "_", name.strip().strip(":").lower()).strip("_")
    if stem not in files:
        near = difflib.get_close_matches(stem[:60], files, n=3, cutoff=0.4)
        nearest = ", ".join(near) or "face_with_tongue, smiling_face, cat_face"
        raise ToolError(f"no emoji is called {name[:60]!r}; nearest: {nearest}")
    with Image.open(files[stem], formats=("PNG",)) as picture:
        return picture.convert("RGBA")


@cache
def emoji_files() -> Mapping[str, Path]:
    """Return the file of every emoji by name.

    Raises:
        MissingExtraError: the package is not installed.
    """
    spec = importlib.util.find_spec("augly")
    if spec is None or spec.origin is None:
        raise MissingExtraError("augly", "EMOJI")
    folder = Path(spec.origin).parent / "assets" / "twemojis"
    return {path.stem: path for path in sorted(folder.glob("*/*.png"))}
