"""Converts records to JSON and back, for storage, ``viper run --json`` and HTTP.

The dataclasses of :mod:`viper.schema` and of the packages above it are the only declaration of a
record. pydantic checks JSON values against their annotations, and the HTTP schema is generated from
them. A new field of ``Trace`` or ``Answer`` appears in storage, ``--json`` and HTTP by itself; a
value computed from them is one row of `_COMPUTED` here.

Stored traces keep references as tools received them, ``{"kind", "fields"}`` with the y axis up, so
that programs can be replayed. :func:`outside` converts them for everything that leaves: JSON,
terminal and pages.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

from viper.errors import UsageError, ViperError
from viper.schema import CLIP_ID, SCHEMA_VERSION, Answer, Box, ToolCall, Trace, Turn, to_json

_R = TypeVar("_R")

# Characters of a wrong value in an error: enough to find it, and the message stays one line.
_LONGEST_VALUE = 60

# pydantic's name of the error.
_UNKNOWN = "unexpected_keyword_argument"

# Profiles and services take a few kilobytes; a larger file is not one of them.
_MAX_TOML_BYTES = 256 << 10


class RecordError(ViperError, ValueError):
    """Values do not match the record; the message names the key and the value seen.

    Attributes:
        keys: path to the value, from the outside in.
        problem: description of the mismatch.
    """

    code = "record"

    def __init__(self, keys: Iterable[str | int], problem: str) -> None:
        self.keys = tuple(keys)
        key = ".".join(map(str, self.keys))
        super().__init__(f"{key}: {problem}" if key else problem)
        self.problem = problem


def record_from_json(kind: type[_R], values: Any, *, strict: bool = False) -> _R:
    """Return the record that :func:`viper.schema.to_json` turned into these values.

    Unknown keys are ignored, so that records of a later version can be read, unless the record's
    ``__pydantic_config__`` forbids them.

    Args:
        kind: class of the record.
        values: plain JSON values.
        strict: refuse ``"3"`` and ``true`` for a number, and numbers for truth values.

    Raises:
        RecordError: a field without a default is missing, or a value has another type.
    """
    from pydantic import ValidationError

    adapter = _adapter(kind)  # type: ignore[arg-type]
    try:
        if strict:
            record: _R = adapter.validate_json(json.dumps(values, default=str), strict=True)
        else:
            record = adapter.validate_python(values)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        # A misspelt key is also a missing one; the unknown key explains both.
        first = next((item for item in problems if item["type"] == _UNKNOWN), problems[0])
        problem = first["msg"][0].lower() + first["msg"][1:]
        if first["type"] == _UNKNOWN:
            problem = "unknown key"
            if len(first["loc"]) == 1:
                names = (item.name for item in dataclasses.fields(kind))  # type: ignore[arg-type]
                problem += f"; known: {', '.join(names)}"
        elif first["type"] != "missing":
            problem += f", got {repr(first['input'])[:_LONGEST_VALUE]}"
        raise RecordError(_keys(values, first["loc"]), problem) from None
    return record


def _keys(values: Any, place: Sequence[str | int]) -> Iterator[str | int]:
    """Yield the keys of a location in ``values``, without the type that pydantic appends for
    unions.
    """
    for key in place:
        if isinstance(values, list | tuple):
            values = dict(enumerate(values))
        if not isinstance(values, dict):
            return
        yield key
        values = values.get(key)


def record_from_toml(kind: type[_R], path: Path, **defaults: Any) -> _R:
    """Return the record in a small TOML file.

    Args:
        kind: class of the record.
        path: the TOML file.
        defaults: values for fields that the file does not set.

    Raises:
        UsageError: the file cannot be read or is too large, or a value is wrong; names the line.
    """
    text, values = read_toml(path)
    try:
        return record_from_json(kind, {**defaults, **values}, strict=True)
    except RecordError as error:
        raise UsageError(f"{path}:{toml_line(text, error.keys)}: {error}") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text and the values of a small TOML file.

    Raises:
        UsageError: it cannot be read, or is too large.
    """
    try:
        if path.stat().st_size > _MAX_TOML_BYTES:
            raise UsageError(f"{path}: larger than {_MAX_TOML_BYTES:,} bytes")
        text = path.read_text("utf-8")
        return text, tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read as TOML ({str(error)[:120]})") from None


def toml_line(text: str, keys: Sequence[str | int]) -> int:
    """Return the line of a TOML text that defines a key, or its nearest table; 1 if there is
    neither.
    """
    lines = [line.partition("#")[0] for line in text.splitlines()]
    values, number = tomllib.loads(text), 1
    for key in keys:
        if not isinstance(values, dict) or key not in values:
            break  # a later table may have a key of the same name
        values = values[key]
        named = re.compile(rf'(^|[{{\[,.\s])"?{re.escape(str(key))}"?\s*[=.\]]')
        there = (at for at, line in enumerate(lines, 1) if at >= number and named.search(line))
        number = next(there, number)
    return number


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


# Parts of a reference by its kind, in the order of its fields.
_PARTS = {
    "patch": ("picture", "box", "outline", "label"),
    "view": ("picture", "box"),
    "image": ("picture", "size"),
    "segment": ("video", "frames"),
    "video": ("video", "count", "size"),
}
# Parts of several numbers.
_NUMBERS = {"box": 4, "size": 2, "frames": 2}


def outside(value: Any, sizes: Mapping[str, tuple[int, int]]) -> Any:
    """Return a JSON value of a trace with its references in the form for readers.

    A patch becomes ``{"kind": "patch", "picture": "image0", "box": [x0, y0, x1, y1]}`` in pixels
    from the top-left corner, with its label if it has one. The box is None if a program invented
    the patch.

    Args:
        sizes: (width, height) of each picture, see :attr:`viper.models.media.Media.sizes`.
    """
    if isinstance(value, list | tuple):
        return [outside(item, sizes) for item in value]
    if not isinstance(value, Mapping):
        return value
    parts = _PARTS.get(str(value.get("kind")), ())
    if not parts or set(value) != {"kind", "fields"} or not isinstance(value["fields"], list):
        return {key: outside(item, sizes) for key, item in value.items()}
    shown: dict[str, Any] = {"kind": value["kind"]}
    fields = value["fields"]
    for name in parts:
        count = _NUMBERS.get(name, 1)
        part, fields = fields[:count], fields[count:]
        if name in _NUMBERS:
            finite = [
                side for side in part if isinstance(side, int | float) and math.isfinite(side)
            ]
            shown[name] = finite if len(finite) == count else None
        elif part and part != [""]:
            shown[name] = part[0]
    if value["kind"] == "patch" and shown["box"] is not None:
        picture = str(shown["picture"])
        size = sizes.get(picture) or sizes.get("video0" if "#" in picture else "")
        turned = size and Box(*shown["box"]).to_pixels(size[1])
        shown["box"] = turned and [round(side, 2) for side in turned]  # as answers are
    return shown


def value_text(value: Any) -> str:
    """Return a value of :func:`outside` in a few words, such as ``patch at (5, 52, 92, 191)``."""
    if isinstance(value, Mapping):
        try:
            return reference_text(value)
        except (KeyError, TypeError, ValueError):
            return f"{{{', '.join(f'{key}: {value_text(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        # four boxes fill a line
        return f"[{', '.join(map(value_text, value[:4]))}{', …' if len(value) > 4 else ''}]"
    text = f"{value:.3g}" if isinstance(value, float) else repr(value)
    # a value takes at most a line of a narrow terminal
    return text if len(text) <= 80 else f"{text[:79]}…"


def reference_text(reference: Mapping[str, Any]) -> str:
    """Return a reference of :func:`outside`, or an array, in a few words.

    Raises:
        KeyError, TypeError, ValueError: a mapping that a program made, and no reference.
    """
    kind, picture = str(reference["kind"]), str(reference.get("picture", "image0"))
    picture = "edited picture" if picture.startswith("edit-") else picture
    if kind == "array":
        return f"array of {reference['dtype']}, shape {reference['shape']}"
    video, _, number = str(reference.get("video", picture)).partition("#")
    clip = f" of {_clip_words(video)}" if CLIP_ID.fullmatch(video) else ""
    picture = f"frame {number}{clip}" if clip else picture
    if kind == "segment":
        start, end = map(int, reference["frames"] or (0, 0))
        return f"frames {start} to {end - 1}{clip}" if end > start else "no frames"
    if kind == "image":
        width, height = reference["size"] or (0, 0)
        return f"{picture} ({width} x {height})"
    if kind == "video":
        return f"{reference['count']} frames{clip}" if clip else kind
    label = f" {reference['label']!r}" if "label" in reference else ""
    sides = ", ".join(f"{side:g}" for side in reference["box"] or ())
    place = f" at ({sides})" if sides else ""
    return f"{kind}{label}{place}{'' if picture == 'image0' else f' in {picture}'}"


def _clip_words(name: str) -> str:
    """Return the part of a video that a clip shows, as ``0:59:57.5 to 1:00:05.5``."""
    start, length, _ = map(int, name.split("-")[1:4])
    ends = (timedelta(milliseconds=each) for each in (start, start + length))
    return " to ".join(re.sub(r"(\.\d*?)0+$", r"\1", str(each)) for each in ends)


@dataclass(frozen=True)
class Vote:
    """A short form of an answer in a vote, and its number of votes."""

    answer: str
    count: int


# Version of run records: 1 has references as they are stored, 2 as :func:`outside` returns them.
RECORD_SCHEMA = 2

# Keys of a run record by the fields of the trace and of its answer, which are merged.
_TRACE_KEYS = {item.name: item.name for item in dataclasses.fields(Trace)}
_TRACE_KEYS["left_out"] = "api_left_out"
_ANSWER_KEYS = {item.name: item.name for item in dataclasses.fields(Answer)}
_ANSWER_KEYS |= {"value": "answer", "kind": "answer_kind"}

# Type and value of the keys that are computed from the trace or take another form.
_COMPUTED: dict[str, tuple[Any, Callable[[Trace], Any]]] = {
    "query": (str, lambda trace: trace.query.text),
    "program": (str | None, lambda trace: trace.program),
    "plan": (str | None, lambda trace: trace.plan),
    "turns": (list[Turn] | None, lambda trace: to_json(trace.turns) or None),
    "path": (list[Any] | None, lambda trace: to_json(trace.path) or None),
    "tool_calls": (list[ToolCall], lambda trace: to_json(trace.tool_calls)),
    "votes": (
        list[Vote],
        lambda trace: [{"answer": text, "count": count} for text, count in trace.votes],
    ),
}


def result_record(
    trace: Trace, images: Sequence[str] = (), schema: int = RECORD_SCHEMA
) -> dict[str, Any]:
    """Return a finished run as JSON values: every field of its trace, null if a field does not
    apply.

    Boxes are ``[x0, y0, x1, y1]`` in pixels from the top-left corner, see :func:`outside`.

    Args:
        trace: the trace of the run.
        images: files that the run wrote, if any.
        schema: 1 leaves the references as they are stored.
    """
    values: dict[str, Any] = to_json(trace)
    answer = values["answer"] or {}
    record = {
        **{_TRACE_KEYS.get(name, name): value for name, value in values.items()},
        **{key: answer.get(name) for name, key in _ANSWER_KEYS.items()},
        "images": list(images),
        **{key: compute(trace) for key, (_, compute) in _COMPUTED.items()},
        "schema": schema,
    }
    return record if schema == 1 else cast(dict[str, Any], outside(record, trace.sizes))


def trace_from_record(record: Any) -> Trace:
    """Return the trace of which :func:`result_record` made these JSON values.

    Its references keep the form for readers, so it can be shown, but not replayed.

    Raises:
        RecordError: a value is missing or of another type.
    """
    if not isinstance(record, dict):
        raise RecordError((), f"expected an object, got {repr(record)[:_LONGEST_VALUE]}")
    keys = _TRACE_KEYS.items()
    values = {name: record[key] for name, key in keys if record.get(key) is not None}
    answer = {name: record.get(key) for name, key in _ANSWER_KEYS.items()}
    values["answer"] = answer if answer["kind"] is not None else None
    values["failure"] = record.get("failure")
    values["query"] = {"text": record.get("query"), "task": record.get("task")}
    values["votes"] = [tuple(each.values()) for each in record.get("votes") or ()]
    values["schema"] = SCHEMA_VERSION
    return record_from_json(Trace, values)


def _run_record() -> type:
    types = {
        **{_TRACE_KEYS[name]: kind for name, kind in get_type_hints(Trace).items()},
        **{_ANSWER_KEYS[name]: kind | None for name, kind in get_type_hints(Answer).items()},
        "images": list[str],
        **{key: kind for key, (kind, _) in _COMPUTED.items()},
    }
    picture = ("picture", str | None, field(default=None))
    record = make_dataclass("RunRecord", [*types.items(), picture], frozen=True, kw_only=True)
    record.__module__ = __name__
    record.__doc__ = (
        "A finished run, as ``viper run --json`` prints it. Null where a field does not apply.\n\n"
        "Boxes are x0, y0, x1, y1 in pixels from the top-left corner. ``tool_calls`` are those of\n"
        "the trial that gave the answer. ``api_left_out`` names the functions that the prompt had\n"
        "no room for. ``fallback`` names the fallback that answered after every trial failed.\n"
        "``chosen`` is the number of the trial that gave the answer, from 0. ``votes`` holds the\n"
        "answers of a run that voted, best first. ``picture`` is the data: address of a PNG, only\n"
        "over HTTP and for an edit."
    )
    return record


# The shape of :func:`result_record`, for the HTTP schema.
RunRecord = _run_record()
