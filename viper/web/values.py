"""Views of a trace's JSON values: crops, spans of frames, lists, text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from viper.models.edited import EDIT_ID
from viper.schema import Box, PixelBox

LONGEST_TEXT = 2_000
MOST_ITEMS = 24

Kind = Literal["text", "crop", "span", "items", "pairs"]


@dataclass(frozen=True)
class DisplayValue:
    """View of a JSON value.

    Attributes:
        text: the text, or the caption of another kind.
        picture: name of the picture of a ``crop``.
        box: box of the crop, in pixels from the top-left corner.
        span: first and end frame of a ``span``, the end exclusive.
        items: items of a list, or the values of ``pairs``, whose names are in ``names``.
        more: number of items that are left out.
    """

    kind: Kind
    text: str = ""
    picture: str = ""
    box: PixelBox | None = None
    span: tuple[int, int] = (0, 0)
    items: tuple[DisplayValue, ...] = ()
    names: tuple[str, ...] = ()
    more: int = 0


@dataclass(frozen=True)
class Sizes:
    """Sizes of the media that references in a trace are resolved against.

    Attributes:
        pictures: width and height of every picture by name.
        frames: number of frames of the video; 0 without a video.
    """

    pictures: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    frames: int = 0


def display_value(value: Any, sizes: Sizes) -> DisplayValue:
    """Build the view of a JSON value of a trace, see :func:`viper.tools.session.plain`."""
    if isinstance(value, Mapping):
        reference = _reference(value, sizes)
        if reference is not None:
            return reference
        pairs = list(value.items())[:MOST_ITEMS]
        return DisplayValue(
            "pairs",
            names=tuple(str(name) for name, _ in pairs),
            items=tuple(display_value(item, sizes) for _, item in pairs),
            more=len(value) - len(pairs),
        )
    if isinstance(value, list | tuple):
        items = tuple(display_value(item, sizes) for item in value[:MOST_ITEMS])
        return DisplayValue("items", items=items, more=len(value) - len(items))
    return DisplayValue("text", _text(value))


def _reference(value: Mapping[str, Any], sizes: Sizes) -> DisplayValue | None:
    kind = value.get("kind")
    if kind == "array" and set(value) == {"kind", "shape", "dtype"}:
        return DisplayValue("text", f"array of {value['dtype']}, shape {value['shape']}")
    if set(value) != {"kind", "fields"} or not isinstance(value["fields"], list | tuple):
        return None
    fields = value["fields"]
    try:
        if kind in ("patch", "image"):
            label = str(fields[6]) if kind == "patch" and len(fields) > 6 else ""
            return _crop(str(fields[0]), fields[1:5] if kind == "patch" else None, sizes, label)
        if kind == "segment":
            return _span(int(fields[1]), int(fields[2]))
        if kind == "video":
            return _span(0, sizes.frames)
    except (IndexError, TypeError, ValueError):
        return None
    return None


def _crop(picture: str, sides: Any, sizes: Sizes, label: str) -> DisplayValue | None:
    if picture not in sizes.pictures:
        return None
    width, height = sizes.pictures[picture]
    box: PixelBox = (0.0, 0.0, float(width), float(height))
    if sides is not None:
        box = Box(*(float(side) for side in sides)).to_pixels(height)
    numbers = ", ".join(f"{side:.0f}" for side in box)
    name = "edited picture" if EDIT_ID.fullmatch(picture) else picture
    caption = f"{label} in {name}" if label else name
    return DisplayValue("crop", f"{caption} [{numbers}]", picture, box)


def _span(start: int, end: int) -> DisplayValue:
    text = f"frames {start} to {end - 1}" if end > start else "no frames"
    return DisplayValue("span", text, span=(start, end))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def crops(value: DisplayValue) -> Iterator[DisplayValue]:
    """Yield the crops in a value, the value itself included."""
    if value.kind == "crop":
        yield value
    for item in value.items:
        yield from crops(item)
