"""Records as JSON and back: stored, printed by ``viper run --json``, answered over HTTP.

The dataclasses of :mod:`viper.schema` and of the packages above are the only declaration of a
record: pydantic checks JSON values against their annotations, and the HTTP schema is made of them.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from viper.errors import UsageError, ViperError
from viper.schema import Answer, ToolCall, Trace, Turn, to_json

_R = TypeVar("_R")

_LONGEST_VALUE = 60
_UNKNOWN = "unexpected_keyword_argument"
_MAX_TOML_BYTES = 256 << 10


class RecordError(ViperError, ValueError):
    """Values are not the record that they should be; names the key and the value seen.

    Attributes:
        keys: to the value, from the outside in.
        problem: with it.
    """

    code = "record"

    def __init__(self, keys: Iterable[str | int], problem: str) -> None:
        self.keys, self.problem = tuple(keys), problem
        key = ".".join(map(str, self.keys))
        super().__init__(f"{key}: {problem}" if key else problem)


def record_from_json(kind: type[_R], values: Any, *, strict: bool = False) -> _R:
    """Return the record that :func:`viper.schema.to_json` turned into these values.

    Unknown keys are ignored, so that records of a later version can be read, unless the record's
    ``__pydantic_config__`` forbids them.

    Args:
        kind: of the record.
        values: plain JSON values.
        strict: refuse ``"3"`` and ``true`` for a number, and numbers for truth values.

    Raises:
        RecordError: a field without a default is missing, or a value has another type.
    """
    from pydantic import ValidationError

    adapter = _adapter(kind)  # type: ignore[arg-type]
    try:
        if strict:
            text = json.dumps(values, default=str)
            record: _R = adapter.validate_json(text, strict=True)
        else:
            record = adapter.validate_python(values)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        # A misspelt key is also a missing one; the unknown key tells what happened.
        first = next((one for one in problems if one["type"] == _UNKNOWN), problems[0])
        problem = first["msg"][0].lower() + first["msg"][1:]
        if first["type"] == _UNKNOWN:
            problem = "unknown key"
            if len(first["loc"]) == 1:
                names = (one.name for one in dataclasses.fields(kind))  # type: ignore[arg-type]
                problem += f"; known: {', '.join(names)}"
        elif first["type"] != "missing":
            problem += f", got {repr(first['input'])[:_LONGEST_VALUE]}"
        raise RecordError(_keys(values, first["loc"]), problem) from None
    return record


def _keys(values: Any, place: Sequence[str | int]) -> Iterator[str | int]:
    """Keys of a place in values: pydantic goes on with the type where several are possible."""
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
        kind: of the record.
        path: of the file.
        defaults: of fields that the file does not name.

    Raises:
        UsageError: it cannot be read or is too large, or a value is wrong; names the line.
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
    """Return the line of a TOML text that defines a key, or its nearest table; 1 for neither."""
    lines = [line.partition("#")[0] for line in text.splitlines()]
    values, number = tomllib.loads(text), 1
    for key in keys:
        if not isinstance(values, dict) or key not in values:
            break  # A later table may have a key of that name.
        values = values[key]
        named = re.compile(rf'(^|[{{\[,.\s])"?{re.escape(str(key))}"?\s*[=.\]]')
        there = (at for at, line in enumerate(lines, 1) if at >= number and named.search(line))
        number = next(there, number)
    return number


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@dataclass(frozen=True)
class Vote:
    """An answer that was voted for, in a few words."""

    answer: str
    count: int


_RENAMED = {"left_out": "api_left_out"}
"""Keys of a run's record that have another name than the field of the trace."""

_ANSWER_KEYS = {"value": "answer", "kind": "answer_kind"}
"""Likewise for fields of the answer, which stand beside those of the trace."""

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
"""Type and value of the keys that are worked out from the trace, or take another form there."""


def result_record(trace: Trace, images: Sequence[str] = ()) -> dict[str, Any]:
    """Return a finished run as JSON values: every field of its trace; null where none applies.

    Boxes are ``[x0, y0, x1, y1]`` in pixels from the top-left corner.

    Args:
        trace: of the run.
        images: files the run wrote, if any.
    """
    values: dict[str, Any] = to_json(trace)
    answer = values["answer"] or {}
    return {
        **{_RENAMED.get(name, name): value for name, value in values.items()},
        **{
            _ANSWER_KEYS.get(one.name, one.name): answer.get(one.name)
            for one in dataclasses.fields(Answer)
        },
        "images": list(images),
        **{key: compute(trace) for key, (_, compute) in _COMPUTED.items()},
    }


def _run_record() -> type:
    of_trace = get_type_hints(Trace)
    types = {
        **{_RENAMED.get(name, name): kind for name, kind in of_trace.items()},
        **{
            _ANSWER_KEYS.get(name, name): kind | None
            for name, kind in get_type_hints(Answer).items()
        },
        "images": list[str],
        **{key: kind for key, (kind, _) in _COMPUTED.items()},
    }
    picture = ("picture", str | None, field(default=None))
    record = make_dataclass("RunRecord", [*types.items(), picture], frozen=True, kw_only=True)
    record.__module__ = __name__
    record.__doc__ = (
        "A finished run, as ``viper run --json`` prints it. Null where a field does not apply.\n\n"
        "Boxes are x0, y0, x1, y1 in pixels from the top-left corner. ``tool_calls`` are those of\n"
        "the trial that gave the answer; ``api_left_out`` names what the prompt had no room for;\n"
        "``fallback`` what answered after every trial had failed; ``chosen`` the trial that gave\n"
        "the answer, from 0; ``votes`` where several answers were voted on, best first.\n"
        "``picture`` is the data: address of a PNG, over HTTP and of an edit alone."
    )
    return record


RunRecord = _run_record()
"""The shape of :func:`result_record`, for the HTTP schema."""
