"""What a task lets a program return, and how it becomes an Answer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.edited import Origin
from viper.models.media import Media
from viper.models.vision.roles import Pixels
from viper.sandbox import Ref
from viper.schema import Answer, Box, Failure, PixelBox, Query

_ASKING = re.compile(
    r"^(what|which|who|where|when|why|how|is|are|was|were|does|do|did|can|has|have|will|"
    r"tell me (what|which|how))\b"
)
_WHICH = r"(the|all|every|each|everything|everyone|any|my|his|her|their)\b"
_EDITING = re.compile(
    rf"^((replace|hide|blur|remove|erase|cover|recolou?r) {_WHICH}|(create|make) (a )?colou?r ?pop)"
)
_TAGGING = re.compile(rf"^(tag|label) {_WHICH}")
_TRUE, _FALSE = {"yes", "true", "y", "1"}, {"no", "false", "n", "0"}


def resolve_task(query: Query) -> tuple[str, str]:
    """The task of a query and, for ``auto``, why it was chosen.

    Options make a choice; a question mark or an opening question word makes a
    question; "tag the …" asks for tags, "replace the …" and its like for an edit; any other
    words about one picture name something to ground.
    """
    if query.task != "auto":
        return query.task, "as asked"
    if query.options:
        return "choice", "options were given"
    text = query.text.strip().lower()
    if query.media == "video":
        return "question", "a video without options"
    if text.endswith("?") or _ASKING.match(text):
        return "question", "worded as a question"
    if _TAGGING.match(text):
        return "tag", "asks for tags"
    if _EDITING.match(text):
        return "edit", "asks for a change"
    if query.media == "images":
        return "statement", "a statement about several pictures"
    return "ground", "names something in a picture"


def read_answer(
    value: Any, query: Query, media: Media, by: str = "the program"
) -> Answer | Failure:
    """What a program returned as the task's Answer, or a ``return_type`` Failure.

    A tuple ``(answer, info)`` counts as the answer. ``by`` is who returned it, for the message.
    """
    info: Any = None
    if isinstance(value, tuple) and len(value) == 2:
        value, info = value[0], _json(value[1])
    read = _READERS[query.task](value, query, media)
    if isinstance(read, Failure):
        return replace(read, message=f"{by} {read.message}")
    if info is None:
        return read
    return Answer(read.value, read.kind, read.choice_index, read.box, read.image_index, info)


def _wrong(value: Any, expected: str) -> Failure:
    seen = "nothing" if value is None else f"{type(value).__name__} {str(value)[:60]!r}"
    if isinstance(value, Ref):
        seen = f"a {value.kind}"
    return Failure("return_type", f"returned {seen}; expected {expected}")


def _ground(value: Any, query: Query, media: Media) -> Answer | Failure:
    """One patch; of a list of labelled ones, as line programs have them, the first: the surest."""
    if isinstance(value, list) and value and (len(value) == 1 or all(map(label_of, value))):
        value = value[0]
    if not isinstance(value, Ref) or value.kind != "patch":
        return _wrong(value, "one ImagePatch")
    place = place_of(value, media)
    if place is None:
        return _wrong(value, "a patch of the given picture that is not empty")
    image_id, box = place
    digits = re.sub(r"\D", "", image_id.rpartition("#")[2]) or "0"
    return Answer(list(box), "box", box=box, image_index=int(digits))


def _question(value: Any, query: Query, media: Media) -> Answer | Failure:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return Answer("yes" if value else "no", "text")
    if isinstance(value, int | float) and math.isfinite(value):
        return Answer(int(value) if float(value).is_integer() else value, "number")
    if isinstance(value, str) and value.strip():
        return Answer(value.strip(), "text")
    return _wrong(value, "text, a truth value or a number")


def _choice(value: Any, query: Query, media: Media) -> Answer | Failure:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value < len(query.options):
            return Answer(query.options[value], "choice", choice_index=value)
    elif isinstance(value, str):
        wanted = _folded(value)
        for index, option in enumerate(query.options):
            if _folded(option) == wanted:
                return Answer(option, "choice", choice_index=index)
    return _wrong(value, f"one of the {len(query.options)} options or its index from 0")


def _folded(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .")


def _statement(value: Any, query: Query, media: Media) -> Answer | Failure:
    if isinstance(value, bool | np.bool_):
        return Answer(bool(value), "truth")
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word in _TRUE | _FALSE:
        return Answer(word in _TRUE, "truth")
    return _wrong(value, "a truth value")


def _edit(value: Any, query: Query, media: Media) -> Answer | Failure:
    """A picture: an array, an edited picture, or a part of one; kept with the media."""
    found = picture_of(value, media)
    if found is None:
        return _wrong(value, "a picture: an edited one, an ImagePatch, or uint8 [3, H, W]")
    pixels, origin = found
    try:
        name = media.edits.add(pixels, origin)
    except ToolError as error:
        return Failure("return_type", f"returned a picture that cannot be kept: {error}")
    size = {"width": pixels.shape[1], "height": pixels.shape[0]}
    return Answer({"picture": name, **size}, "image")


def _tag(value: Any, query: Query, media: Media) -> Answer | Failure:
    """Pairs of a patch and its label in either order, labelled patches, or what ``TAG`` gave."""
    if isinstance(value, Ref) and str(value.fields[0]) in media.edits:
        kept = media.edits.picture(str(value.fields[0])).tags
        if kept is not None:
            return Answer([{"box": list(tag.box), "label": tag.label} for tag in kept], "tags")
    if not isinstance(value, list | tuple):
        return _wrong(value, "a list of (patch, label) pairs")
    tags = []
    for item in value:
        pair = (item, label_of(item)) if label_of(item) else item
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            return _wrong(item, "a (patch, label) pair")
        patch, label = pair if isinstance(pair[1], str) else (pair[1], pair[0])
        if not isinstance(label, str):
            return _wrong(item, "a (patch, label) pair")
        located = _ground(patch, query, media)
        if isinstance(located, Failure):
            return located
        tags.append({"box": list(located.box or ()), "label": label})
    return Answer(tags, "tags")


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)[:200]


def _auto(value: Any, query: Query, media: Media) -> Answer | Failure:
    """By what came out: a picture, a patch, tags, else words (a program of one's own)."""
    if isinstance(value, Ref):
        made = str(value.fields[0]) in media.edits
        if not made:
            return _ground(value, query, media)
        tagged = media.edits.picture(str(value.fields[0])).tags is not None
        return _tag(value, query, media) if tagged else _edit(value, query, media)
    if isinstance(value, np.ndarray):
        return _edit(value, query, media)
    if isinstance(value, list):
        return _tag(value, query, media)
    return _question(value, query, media)


_READERS: dict[str, Callable[[Any, Query, Media], Answer | Failure]] = {
    "ground": _ground,
    "question": _question,
    "choice": _choice,
    "statement": _statement,
    "edit": _edit,
    "tag": _tag,
    "auto": _auto,
}


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
