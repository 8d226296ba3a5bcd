"""What is wrong with a program that differs from the right one in one thing, in words."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from itertools import zip_longest

_SAID: Mapping[str, str] = {
    "direction": "goes the wrong way",
    "superlative": "takes the wrong extreme",
    "order": "goes by the wrong axis",
    "attribute": "asks for the wrong thing",
    "filter": "leaves a condition out",
    "condition": "asks for more than the query does",
}
"""By the kind of :class:`viper.tuning.program_edits.EditedProgram`."""

_LONGEST_LINE = 200


def program_fault(kind: str, right: str, wrong: str) -> str:
    """Which line is wrong, in what way, and how it should read.

    Args:
        kind: of the difference.
        right: the program that answers right, however it is laid out.
        wrong: the other one as :func:`viper.tuning.program_edits.edited_programs` gives it; lines
            count in it.
    """
    said = _SAID.get(kind, "is wrong")
    pairs = zip_longest(_plain(right).splitlines(), wrong.splitlines(), fillvalue="")
    for number, (before, after) in enumerate(pairs, start=1):
        if before != after:
            return f"Line {number} {said}: `{_cut(after)}` should be `{_cut(before)}`"
    return f"The program {said}"


def _plain(program: str) -> str:
    """The program laid out as Python writes it; as it is where it does not parse."""
    try:
        return ast.unparse(ast.parse(program))
    except (SyntaxError, ValueError, RecursionError):
        return program


def _cut(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
