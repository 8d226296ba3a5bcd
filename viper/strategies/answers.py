"""What a task lets a program return, and how it becomes an Answer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from viper.sandbox import Ref
from viper.schema import Answer, Box, Failure, Query
from viper.tools.media import Media

_ASKING = re.compile(
    r"^(what|which|who|where|when|why|how|is|are|was|were|does|do|did|can|has|have|will|"
    r"tell me (what|which|how))\b"
)
_TRUE, _FALSE = {"yes", "true", "y", "1"}, {"no", "false", "n", "0"}


def resolve_task(query: Query) -> tuple[str, str]:
    """The task of a query and, for ``auto``, why it was chosen.

    Options make a choice; a question mark or an opening question word makes a
    question; any other words about one picture name something to ground.
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
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, Ref) or value.kind != "patch":
        return _wrong(value, "one ImagePatch")
    image_id = str(value.fields[0])
    try:
        picture = media.pixels(image_id)
    except KeyError:
        return _wrong(value, "a patch of the given picture")
    numbers = [float(number) for number in value.fields[1:5]]
    if not all(math.isfinite(number) for number in numbers):
        return _wrong(value, "a patch with finite borders")
    height, width = picture.shape[:2]
    x0, y0, x1, y1 = Box(*numbers).to_pixels(height)
    box = (_bounded(x0, width), _bounded(y0, height), _bounded(x1, width), _bounded(y1, height))
    if box[0] >= box[2] or box[1] >= box[3]:
        return _wrong(value, "a patch that is not empty")
    digits = re.sub(r"\D", "", image_id.rpartition("#")[2]) or "0"
    return Answer(list(box), "box", box=box, image_index=int(digits))


def _bounded(value: float, limit: int) -> float:
    return round(min(max(value, 0.0), float(limit)), 2)


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
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 3:
        return Answer(None, "image")
    return _wrong(value, "a picture, uint8 [3, H, W]")


def _tag(value: Any, query: Query, media: Media) -> Answer | Failure:
    if not isinstance(value, list | tuple):
        return _wrong(value, "a list of (patch, label) pairs")
    tags = []
    for item in value:
        if not isinstance(item, list | tuple) or len(item) != 2 or not isinstance(item[1], str):
            return _wrong(item, "a (patch, label) pair")
        located = _ground(item[0], query, media)
        if isinstance(located, Failure):
            return located
        tags.append({"box": list(located.box or ()), "label": item[1]})
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
    """By what came out: a patch, a picture, pairs, else words (a program of one's own)."""
    if isinstance(value, Ref):
        return _ground(value, query, media)
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
