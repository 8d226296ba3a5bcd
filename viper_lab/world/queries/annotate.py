"""Comments that restate a routine's summary before each call, and made-up routine names.

A small writer copies an unknown name from the API text by way of its summary: the comment retrieves
the line, the call repeats the name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

# Names of video segments in canonical programs.
SEGMENT_VARIABLES = frozenset({"video_segment", "segment"})

_QUOTED = re.compile(r"('[^']*'|\"[^\"]*\")")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_PLAIN_COMMENTS = tuple(
    f"# {name}:" for name in ("query", "task", "options", "failed", "info", "question", "answer")
)


class Signature(Protocol):
    """One listed name, e.g. ``viper.api.sets.ApiEntry``."""

    @property
    def name(self) -> str: ...

    @property
    def owner(self) -> str | None: ...

    @property
    def summary(self) -> str: ...


def annotate(program: str, entries: Iterable[Signature]) -> str:
    """Insert ``# {summary}: {name}`` before each line, one comment per call of a listed name.

    Comments have the indentation of their line and follow the order of the names on it. Names
    without an entry get no comment.

    Raises:
        SyntaxError: when the program does not parse.
    """
    listed: dict[str, list[Signature]] = {}
    for entry in entries:
        listed.setdefault(entry.name, []).append(entry)
    calls: dict[int, list[tuple[int, Signature]]] = {}
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Call) and (entry_call := _listed_call(node.func, listed)):
            number, column, entry = entry_call
            calls.setdefault(number, []).append((column, entry))
    lines: list[str] = []
    for number, line in enumerate(program.split("\n"), start=1):
        indent = line[: len(line) - len(line.lstrip())]
        for _, entry in sorted(calls.get(number, ()), key=lambda call: call[0]):
            lines.append(f"{indent}# {entry.summary}: {entry.name}")
        lines.append(line)
    return "\n".join(lines)


def strip_comments(program: str) -> str:
    """Return the program without its whole-line comments."""
    return "\n".join(line for line in program.split("\n") if not line.lstrip().startswith("#"))


def rename(text: str, mapping: Mapping[str, str]) -> str:
    """Replace routine names in API lines, comments and code.

    Words of summaries, queries and string literals are kept: in a comment only the text after the
    last ``": "`` is a name.
    """

    def swap(match: re.Match[str]) -> str:
        return mapping.get(match.group(), match.group())

    return "\n".join(_renamed_line(line, swap) for line in text.split("\n"))


def _renamed_line(line: str, swap: Callable[[re.Match[str]], str]) -> str:
    stripped = line.lstrip()
    if stripped.startswith("#"):
        head, colon, name = line.rpartition(": ")
        if not colon or stripped.startswith(_PLAIN_COMMENTS):
            return line
        called, bracket, arguments = name.partition("(")
        return head + colon + _IDENTIFIER.sub(swap, called) + bracket + arguments
    parts = _QUOTED.split(line)
    return "".join(
        part if part[:1] in ("'", '"') else _IDENTIFIER.sub(swap, part) for part in parts
    )


def _listed_call(
    function: ast.expr, listed: Mapping[str, list[Signature]]
) -> tuple[int, int, Signature] | None:
    """Return line, column and entry of a call's name, if it is listed."""
    if isinstance(function, ast.Name):
        for entry in listed.get(function.id, ()):
            if entry.owner is None:
                return function.lineno, function.col_offset, entry
        return None
    if not isinstance(function, ast.Attribute):
        return None
    methods = [entry for entry in listed.get(function.attr, ()) if entry.owner is not None]
    if not methods:
        return None
    receiver = function.value
    on_segment = isinstance(receiver, ast.Name) and receiver.id in SEGMENT_VARIABLES
    owner = "VideoSegment" if on_segment else "ImagePatch"
    entry = next((entry for entry in methods if entry.owner == owner), methods[0])
    return function.end_lineno or function.lineno, (function.end_col_offset or 0), entry
