"""Conversion of a program's return value into the Answer of a task.

:func:`read_value` reads what a program returned: :func:`read_answer` picks the reader of the task,
and words that are no option go to the text model. :func:`wrong_type` judges the result by the
question's words. References become boxes, pictures and frames outside programs by :func:`place_of`,
:func:`picture_of` and :func:`outside_value`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from viper.agreement import is_correct, match_tags, normalise_answer, same_box
from viper.api.routines.documents import same_row
from viper.api.written import field_types, typed
from viper.errors import MediaError, ToolError
from viper.models.edited import Origin
from viper.models.media import Media
from viper.models.vision.roles import Pixels, TextLine
from viper.prompting.expected_answer import expected_answer
from viper.record import outside, value_text
from viper.sandbox import Ref
from viper.schema import CLIP_ID, Answer, Box, Failure, PixelBox, Query
from viper.strategies.tasks import named_things
from viper.tools.call_log import plain
from viper.tools.session import ToolSession
from viper.tools.settings import ToolSettings

# Values that a list for a question may hold.
_PLAIN = str | int | float
# Characters of a field that are read: several lines, such as an address.
MAX_FIELD = 500

_TRUTHS = {"True": "yes", "False": "no"}

# Language models write truth values in these words; other words are no answer to a statement.
_TRUE, _FALSE = {"yes", "true", "y", "1"}, {"no", "false", "n", "0"}


def read_answer(
    value: Any, query: Query, media: Media, by: str = "the program"
) -> Answer | Failure:
    """Return the value of a program as the task's Answer, or a ``return_type`` Failure.

    A tuple ``(answer, info)`` counts as the answer. ``by`` names the source of the value, for the
    message.
    """
    info: Any = None
    if isinstance(value, tuple) and len(value) == 2:
        value, info = value[0], plain(value[1])
    answer = _READERS[query.task](value, query, media)
    if isinstance(answer, Failure):
        return replace(answer, message=f"{by} {answer.message}")
    return answer if info is None else replace(answer, info=info)


def read_value(value: Any, query: Query, session: ToolSession) -> Answer | Failure:
    """Return the value of a program as an answer to the query about the session's media.

    A choice about pictures is put to programs as a question, so words that are no option are
    matched to the options by the text model.
    """
    answer = read_answer(value, query, session.media)
    is_question = query.task == "choice" and query.media != "video" and query.options
    if not isinstance(answer, Failure) or not is_question:
        return answer
    words = read_answer(value, replace(query, task="question"), session.media)
    if isinstance(words, Failure):
        return answer
    try:
        option = session.call(
            "select_answer", (str(words.value), query.text, list(query.options)), {}, None
        )
    except ToolError as error:
        return Failure("tool", error.problem, tool="select_answer", advice=error.advice)
    return read_answer(option, query, session.media)


def wrong_type(answer: Answer, query: Query, settings: ToolSettings) -> Failure | None:
    """Return a ``wrong_type`` failure if an answer is not of the kind that the question asks for.

    Only answers in words, numbers and truth values to a ``question`` are judged.
    """
    if query.task != "question" or answer.kind not in ("text", "number"):
        return None
    expected = expected_answer(query.text)
    if expected is None or expected.fits(answer.value, settings.in_models_words):
        return None
    message = f"the answer is {str(answer.value)[:60]!r}; the question asks for "
    return Failure("wrong_type", message + expected.words)


def is_sure_of_kind(query: Query) -> bool:
    """Return whether an answer of another kind than :func:`expected_answer` is worth a retry."""
    expected = expected_answer(query.text)
    return expected is not None and expected.sure


def _type_failure(value: Any, expected: str) -> Failure:
    actual = "nothing" if value is None else f"{type(value).__name__} {str(value)[:60]!r}"
    if isinstance(value, Ref | list | tuple):
        actual = (
            f"a {value.kind}" if isinstance(value, Ref) else value_text(outside(plain(value), {}))
        )
    return Failure("return_type", f"returned {actual}; expected {expected}")


def _ground(value: Any, query: Query, media: Media) -> Answer | Failure:
    """Read one patch. Of a list of labelled patches (line programs), read the first, the surest."""
    if isinstance(value, list) and value and (len(value) == 1 or all(map(label_of, value))):
        value = value[0]
    if not isinstance(value, Ref) or value.kind != "patch":
        return _type_failure(value, "one ImagePatch")
    place = place_of(value, media)
    if place is None:
        return _type_failure(value, "a patch of the given picture that is not empty")
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
    items = list(value.values()) if isinstance(value, Mapping) else value
    if isinstance(items, list | tuple) and items and all(isinstance(i, _PLAIN) for i in items):
        words = [_TRUTHS.get(str(item), str(item).strip()) for item in items]
        names = [f"{name}: " for name in value] if isinstance(value, Mapping) else [""] * len(words)
        value = ", ".join(map("".join, zip(names, words, strict=True)))
    if isinstance(value, str) and value.strip():
        expected = expected_answer(query.text)
        read = value.strip() if expected is None else expected.read(value.strip())
        return Answer(read, "number" if isinstance(read, int) else "text")
    return _type_failure(value, "text, a truth value or a number")


def _choice(value: Any, query: Query, media: Media) -> Answer | Failure:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value < len(query.options):
            return Answer(query.options[value], "choice", choice_index=value)
    elif isinstance(value, str):
        folded = _fold(value)
        for index, option in enumerate(query.options):
            if _fold(option) == folded:
                return Answer(option, "choice", choice_index=index)
    return _type_failure(value, f"one of the {len(query.options)} options or its index from 0")


def _fold(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .")


def _statement(value: Any, query: Query, media: Media) -> Answer | Failure:
    if isinstance(value, bool | np.bool_):
        return Answer(bool(value), "truth")
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word in _TRUE | _FALSE:
        return Answer(word in _TRUE, "truth")
    return _type_failure(value, "a truth value")


def _edit(value: Any, query: Query, media: Media) -> Answer | Failure:
    """Read a picture (an array, an edited picture, or part of one) and store it with the media."""
    picture = picture_of(value, media)
    if picture is None:
        return _type_failure(value, "a picture: an edited one, an ImagePatch, or uint8 [3, H, W]")
    pixels, origin = picture
    try:
        name = media.edits.add(pixels, origin)
    except ToolError as error:
        return Failure("return_type", f"returned a picture that cannot be kept: {error}")
    size = {"width": pixels.shape[1], "height": pixels.shape[0]}
    return Answer({"picture": name, **size}, "image")


def _tag(value: Any, query: Query, media: Media) -> Answer | Failure:
    """Read pairs of a patch and its label in either order, labelled patches, or the result of
    ``TAG``.
    """
    if isinstance(value, Ref) and str(value.fields[0]) in media.edits:
        stored = media.edits.picture(str(value.fields[0])).tags
        if stored is not None:
            return Answer([{"box": list(tag.box), "label": tag.label} for tag in stored], "tags")
    if isinstance(value, Ref) and value.kind == "patch":
        value = [value]
    if not isinstance(value, list | tuple):
        return _type_failure(value, "a list of (patch, label) pairs")
    tags, named = [], named_things(query.text)
    for item in value:
        is_patch = isinstance(item, Ref) and item.kind == "patch"
        pair = (item, label_of(item) or named) if is_patch else item
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            return _type_failure(item, "a (patch, label) pair")
        patch, label = pair if isinstance(pair[1], str) else (pair[1], pair[0])
        if not isinstance(label, str):
            return _type_failure(item, "a (patch, label) pair")
        answer = _ground(patch, query, media)
        if isinstance(answer, Failure):
            return answer
        tags.append({"box": list(answer.box or ()), "label": label})
    return Answer(tags, "tags")


def _auto(value: Any, query: Query, media: Media) -> Answer | Failure:
    """Read by the type of the value: a picture, a patch, tags, or else words (the caller's
    program).
    """
    if isinstance(value, Ref):
        if str(value.fields[0]) not in media.edits:
            return _ground(value, query, media)
        has_tags = media.edits.picture(str(value.fields[0])).tags is not None
        return _tag(value, query, media) if has_tags else _edit(value, query, media)
    if isinstance(value, np.ndarray):
        return _edit(value, query, media)
    if isinstance(value, list):
        return _tag(value, query, media)
    return _question(value, query, media)


# Confidence of a field whose line was read with certainty: candidates agree, there is one, or they
# disagree. In 50 receipts for development 54 of 54 and 69 of 87 were right: (right + 1)/(all + 2).
# Too few disagreed to tell, 6, so that either of two candidates may be right.
AGREED, ALONE, DISAGREED = 0.98, 0.79, 0.5


def _extract(value: Any, query: Query, media: Media) -> Answer | Failure:
    """Read a mapping of fields: patches with labels or texts, or lists of them, the best first."""
    if not isinstance(value, Mapping):
        return _type_failure(value, "a mapping of the fields to patches or texts")
    types = field_types(query.fields).items()
    return Answer(
        [_field(name, kind, value.get(name), query, media) for name, kind in types], "fields"
    )


def _field(name: str, kind: str, value: Any, query: Query, media: Media) -> dict[str, Any]:
    """Return the best candidate of a field with its place, its row of text and doubts about it."""
    entry = {"field": name, **dict.fromkeys(("value", "box", "image_index", "confidence"))}
    read: list[tuple[str, Any]] = []
    for each in value if isinstance(value, list | tuple) else [value]:
        text = label_of(each) if isinstance(each, Ref) else "" if each is None else str(each)
        read += [(known, each)] if (known := typed(kind, text[:MAX_FIELD])) else []
    if not read:
        return {**entry, "lines": [], "reason": "nothing like it was read"}
    texts, row, box = list(dict.fromkeys(text for text, _ in read)), list[TextLine](), (0.0,) * 4
    if isinstance(place := _ground(read[0][1], query, media), Answer):
        box, number = place.value, place.image_index
        entry |= {"box": box, "image_index": number}
        row = [each for each in media.lines.get(f"image{number}", ()) if same_row(each.box, box)]
    own = [line.score for line in row if line.box[0] < box[2] and line.box[2] > box[0]]
    sure = DISAGREED if len(texts) > 1 else AGREED if len(read) > 1 else ALONE
    entry |= {"value": texts[0], "confidence": round(sure * min(own, default=1.0), 3)}
    doubt = f"{len(texts)} candidates disagree: {', '.join(texts)[:200]}" if texts[1:] else ""
    lines = [line.text for line in sorted(row, key=lambda line: line.box[0])]
    return {**entry, "lines": lines, "reason": doubt}


_READERS: dict[str, Callable[[Any, Query, Media], Answer | Failure]] = {
    "ground": _ground,
    "question": _question,
    "choice": _choice,
    "statement": _statement,
    "edit": _edit,
    "tag": _tag,
    "extract": _extract,
    "auto": _auto,
}


def place_of(value: Ref, media: Media) -> tuple[str, PixelBox] | None:
    """Return the id of a patch's picture and its box there; for an edited picture, of the original.

    Return None if there is no such picture, or if the box is empty or not finite.
    """
    whole = _whole_picture(value, media)
    if whole is None:
        return None
    picture, origin = whole
    numbers = [float(number) for number in value.fields[1:5]]
    if len(numbers) != 4 or not all(math.isfinite(number) for number in numbers):
        return None
    height, width = picture.shape[:2]
    x0, y0, x1, y1 = Box(*numbers).to_pixels(height)
    x0, x1 = (_clip(x, width) + origin.x for x in (x0, x1))
    y0, y1 = (_clip(y, height) + origin.y for y in (y0, y1))
    return None if x0 >= x1 or y0 >= y1 else (origin.image_id, (x0, y0, x1, y1))


def value_for(task: str, answer: Answer, media: Media, returned: Any = None) -> Any:
    """Return the value of an answer in Python, of one type for a task, whatever the strategy.

    ``ground``: a :data:`~viper.schema.PixelBox`. ``question`` and ``choice``: a text.
    ``statement``: a truth value. ``edit``: a picture, ``uint8 [H, W, 3]``. ``tag``: a list of
    ``{"box", "label"}``. ``extract``: texts by field, None if missing.
    ``auto``, a program of the caller: :func:`outside_value` of its result.
    """
    if task == "auto":
        return outside_value(returned, media)
    if task == "edit":
        return media.edits.picture(answer.value["picture"]).pixels
    if task == "extract":
        return {entry["field"]: entry["value"] for entry in answer.value}
    return {"ground": answer.box, "question": str(answer.value)}.get(task, answer.value)


def outside_value(value: Any, media: Media) -> Any:
    """Return the value of a program as it is outside programs, inside lists and mappings too.

    A number of numpy becomes a plain one, a patch a :data:`~viper.schema.PixelBox`, a picture
    ``uint8 [H, W, 3]``, a video or a segment the range of its frames, a set a list; a part that was
    read from the file becomes the times of its frames in seconds. A reference to nothing, such as
    an empty patch, becomes None.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: outside_value(item, media) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [outside_value(item, media) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if not isinstance(value, Ref):
        return value
    try:
        if value.kind in ("video", "segment"):
            frames = [0, *value.fields[1:2]] if value.kind == "video" else value.fields[1:3]
            first, end = map(int, frames)
            if CLIP_ID.fullmatch(str(value.fields[0])):
                return list(media.frame_times(str(value.fields[0]))[first:end])
            return range(first, end)
        if value.kind == "patch":
            place = place_of(value, media)
            return place and place[1]
        whole = _whole_picture(value, media) if value.kind == "image" else None
        return whole and whole[0]
    except (LookupError, ValueError, OverflowError, MediaError):  # the program invented it
        return None


def picture_of(value: Any, media: Media) -> tuple[Pixels, Origin] | None:
    """Return the pixels of a returned picture, ``uint8 [H, W, 3]``, and their origin.

    The value may be an array ``uint8 [3, H, W]``, a picture, or a part of one; return None for
    anything else.
    """
    if isinstance(value, np.ndarray):
        if value.dtype != np.uint8 or value.ndim != 3 or value.shape[0] != 3 or not value.size:
            return None
        return value.transpose(1, 2, 0), Origin("image0" if media.video is None else "video0#0")
    if not isinstance(value, Ref) or value.kind not in ("patch", "image"):
        return None
    whole = _whole_picture(value, media)
    if whole is None or value.kind == "image":
        return whole
    place = place_of(value, media)
    if place is None:
        return None
    picture, origin = whole
    x0, y0, x1, y1 = place[1]
    left, top = math.floor(x0) - origin.x, math.floor(y0) - origin.y
    right, bottom = math.ceil(x1) - origin.x, math.ceil(y1) - origin.y
    part = Origin(origin.image_id, left + origin.x, top + origin.y)
    return picture[top:bottom, left:right], part


def _whole_picture(value: Ref, media: Media) -> tuple[Pixels, Origin] | None:
    image_id = str(value.fields[0])
    try:
        return media.pixels(image_id), media.origin(image_id)
    except KeyError:
        return None


def label_of(value: Any) -> str:
    """Return the label of a patch; "" if it has none."""
    # a patch without a label has no seventh field
    has_label = isinstance(value, Ref) and value.kind == "patch" and len(value.fields) > 6
    return str(value.fields[6]) if has_label else ""


def _clip(value: float, limit: int) -> float:
    return round(min(max(value, 0.0), float(limit)), 2)


def is_desired(answer: Answer | None, desired: Any, task: str) -> bool:
    """Return whether an answer is the desired one, by the equality that metrics use for the task.

    ``ground``: an IoU of at least 0.5. ``choice``: the same index. ``statement``: the same truth
    value. ``tag``: an F1 of at least 0.5. ``edit``: never, because only a judge can tell. Other
    tasks: equal texts after :func:`viper.agreement.normalise_answer`.
    """
    if answer is None or desired is None or task == "edit":
        return False
    if task == "ground":
        return answer.box is not None and same_box(answer.box, desired)
    if task == "choice":
        return answer.choice_index == desired
    if task == "statement":
        return answer.value is desired
    if task == "tag":
        return answer.kind == "tags" and is_correct(match_tags(answer.value, desired).f1)
    several = isinstance(desired, Sequence) and not isinstance(desired, str)
    labels = [normalise_answer(accepted) for accepted in (desired if several else [desired])]
    text = normalise_answer(answer.value)
    return bool(text) and text in labels
