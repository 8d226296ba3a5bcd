"""Draws the answer of a run on its picture."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from viper.errors import UsageError
from viper.models.edited import Tag
from viper.models.media import Media
from viper.models.vision.roles import Pixels
from viper.schema import Trace
from viper.storage.files import write_file
from viper.tools.edits import COLOUR, draw_tags

# Pictures of 192 pixels, as of the embedded world, would have no room for the text below.
_MIN_WIDTH = 480
# Two rows of four frames stay readable on a page.
_SHEET_FRAMES = 8


def save_picture(image: Any, path: Path) -> None:
    """Write a PIL picture completely or not at all.

    Raises:
        UsageError: the suffix names no format in which such pictures are written.
        StoreError: the file cannot be written.
    """
    from PIL import Image

    check_picture_path(path)
    content = BytesIO()
    try:
        image.save(content, Image.registered_extensions()[path.suffix.lower()])
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the picture does not fit this format ({error})") from None
    write_file(path, content.getvalue())


def check_picture_path(path: Path) -> None:
    """Raise a UsageError if the suffix of a file names no format in which pictures are written."""
    from PIL import Image

    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise UsageError(f"{path}: unknown picture format {path.suffix!r}; use .png or .jpg")


def draw_answer(trace: Trace, media: Media, edited: Pixels | None = None) -> Any:
    """Return a PIL picture: that of the query with the answer's boxes and text, or the edited one.

    A video becomes a strip of frames.

    Args:
        edited: the picture that is the answer, ``uint8 [H, W, 3]``; None for other answers.
    """
    from PIL import Image

    answer = trace.answer
    if edited is not None:
        return Image.fromarray(edited)
    if media.video is not None and (answer is None or answer.box is None):
        count = len(media.video)
        numbers = np.linspace(0, count - 1, min(count, _SHEET_FRAMES)).round().astype(int)
        # up to three frames fit one row; four and more get two, see _SHEET_FRAMES
        rows = np.array_split(np.array([media.video[i] for i in numbers]), 2 if count > 3 else 1)
        width = max(len(row) for row in rows)
        blank = np.full_like(media.video[0], 255)
        strips = [np.concatenate([*row, *([blank] * (width - len(row)))], axis=1) for row in rows]
        return _with_caption(Image.fromarray(np.concatenate(strips, axis=0)), trace, None)
    index = answer.image_index or 0 if answer is not None else 0
    pixels = media.video[index] if media.video is not None else media.images[index]
    return _with_caption(Image.fromarray(pixels), trace, answer.box if answer else None)


def _with_caption(image: Any, trace: Trace, box: Any) -> Any:
    """Return the picture, enlarged if small, with the box and a strip of text below."""
    from PIL import Image, ImageDraw, ImageFont

    scale = max(1, -(-_MIN_WIDTH // image.width))
    image = image.resize((image.width * scale, image.height * scale), Image.Resampling.LANCZOS)
    draw = ImageDraw.Draw(image)
    line = max(2, image.width // 200)
    if box is not None:
        draw.rectangle([value * scale for value in box], outline=COLOUR, width=line)
    answer = trace.answer
    caption = "no answer" if answer is None else "the box" if box is not None else str(answer.value)
    if answer is not None and answer.kind == "tags":
        draw_tags(image, [Tag(tag["label"], tuple(tag["box"])) for tag in answer.value], scale)
        caption = ", ".join(tag["label"] for tag in answer.value) or "no tags"
    if answer is not None and answer.kind == "fields":
        fields = [each for each in answer.value if each["image_index"] == 0]
        draw_tags(image, [Tag(each["field"], tuple(each["box"])) for each in fields], scale)
        caption = ", ".join(f"{each['field']}: {each['value']}" for each in answer.value)
    size = max(14, image.width // 36)
    font = ImageFont.load_default(size)
    canvas = Image.new("RGB", (image.width, image.height + size * 3), "white")
    canvas.paste(image, (0, 0))
    strip = ImageDraw.Draw(canvas)
    strip.text((8, image.height + 4), trace.query.text[:90], fill="black", font=font)
    # a line of the default font is 1.3 times its size high; 6 pixels keep both lines apart
    strip.text((8, image.height + 6 + size * 1.3), caption[:90], fill=(160, 0, 90), font=font)
    return canvas
