"""Draws constants, thresholds and formulas of the product with the reasons that stand beside them.

``python -m benchmarks.reasons`` prints 40 places, drawn with seed 12, each with its comment, for a
reader to judge. A constant is a name in capitals with a number. A threshold is a comparison with a
number other than -1, 0, 1 and 2, the length of a record aside. A formula has three or more
arithmetic operations, among them a power, a root, a logarithm or a factor that is no whole number.
Left out, since they explain themselves: HTTP statuses, units (``size >= 1e9`` beside
``size / 1e9``, ``/ 2**20``), ``random() < 0.5``, the middle (127) and the end (255) of a byte,
numbers of axes, the length that guards an index (``x[6] if len(x) > 6``), the half pixel that is
added for a pixel's middle, and in constants indices, lambdas and ``A, B = range(2)``.
``--missing`` lists all places without a comment on their lines or above them in the same paragraph.
The exit code is 1 if a printed place has none.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

ROOT = Path(__file__).parents[1]

# These count, index and compare signs; they decide nothing that a reader would ask about.
PLAIN = {-1, 0, 1, 2}

# The middle of a byte, where a mask turns white, and its end.
BYTE = {127, 255}

ERRORS = {status.value for status in HTTPStatus if status >= 400}


@dataclass(frozen=True)
class Place:
    """A constant, threshold or formula.

    Attributes:
        code: its first line.
        reason: the comment that belongs to it; empty if there is none.
    """

    path: str
    line: int
    kind: str
    code: str
    reason: str


def places(path: Path) -> Iterator[Place]:
    """Yield the places of a file in order of their lines."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        for statement in (
            getattr(node, "body", ()) if isinstance(getattr(node, "body", None), list) else ()
        ):
            kind = kind_of(statement, top=isinstance(node, ast.Module | ast.ClassDef))
            if kind:
                yield Place(
                    str(path.relative_to(ROOT)),
                    statement.lineno,
                    kind,
                    lines[statement.lineno - 1].strip(),
                    reason(lines, statement.lineno - 1, end(statement)),
                )


def kind_of(statement: ast.stmt, top: bool) -> str | None:
    """Return what a statement holds, or None for nothing to explain."""
    if isinstance(statement, ast.Assign | ast.AnnAssign) and top:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [
            name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
        ]
        numbers = list(numbers_of(statement.value)) if statement.value else []
        if not isinstance(statement.value, ast.Constant):
            numbers = [number for number in numbers if number not in ERRORS]
        return "constant" if numbers and all(name.isupper() for name in names) else None
    heads = [getattr(statement, name, None) for name in ("value", "test")]
    for head in (head for head in heads if isinstance(head, ast.AST)):
        parts = list(ast.walk(head))
        operations = sum(isinstance(part, ast.BinOp) and arithmetic(part) for part in parts)
        middles = {side for part in parts for side in added_halves(part)}
        if operations >= 3 and any(bends(part) for part in parts if part not in middles):
            return "formula"
        if any(isinstance(part, ast.Compare) and decides(part, parts) for part in parts):
            return "threshold"
    return None


def numbers_of(value: ast.AST) -> Iterator[float]:
    """Yield the numbers that a constant holds, without indices and the code of lambdas."""
    if isinstance(value, ast.Constant) and type(value.value) in (int, float):
        yield value.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "range" and len(value.args) == 1:
        return
    if not isinstance(value, ast.Lambda | ast.Slice):
        for name, child in ast.iter_fields(value):
            if not (isinstance(value, ast.Subscript) and name == "slice"):
                for part in child if isinstance(child, list) else [child]:
                    if isinstance(part, ast.AST):
                        yield from numbers_of(part)


def added_halves(part: ast.AST) -> Iterator[ast.AST]:
    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
        yield from (side for side in (part.left, part.right) if value_of(side) == 0.5)


def value_of(part: ast.AST) -> float | None:
    if isinstance(part, ast.Constant) and type(part.value) in (int, float):
        return part.value
    return None


def arithmetic(part: ast.BinOp) -> bool:
    """Return False for joined texts and unions of types, which use the same operators."""
    texts = any(
        isinstance(side, ast.JoinedStr)
        or isinstance(side, ast.Constant)
        and isinstance(side.value, str)
        for side in ast.walk(part)
    )
    return isinstance(part.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow) and not texts


def bends(part: ast.AST) -> bool:
    """Return True for what makes arithmetic more than geometry: a power, a root or a factor."""
    if isinstance(part, ast.Attribute | ast.Name):
        name = part.attr if isinstance(part, ast.Attribute) else part.id
        return name in ("sqrt", "cbrt", "exp", "log", "log1p", "log2", "log10", "expit", "hypot")
    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow):
        return value_of(part.left) is None or value_of(part.right) is None
    return isinstance(part, ast.Constant) and isinstance(part.value, float) and part.value % 1 != 0


def decides(part: ast.Compare, parts: list[ast.AST]) -> bool:
    """Return whether a comparison holds a number that a reader would ask about.

    Args:
        parts: all parts of the statement.
    """
    sides = [part.left, *part.comparators]
    texts = [ast.unparse(side) for side in sides]
    if isinstance(part.ops[0], ast.Eq | ast.NotEq) and "len" in ast.dump(part):
        return False
    if any(text.endswith(("status", ".ndim")) or ".shape[" in text for text in texts):
        return False
    if any(".rand" in text for text in texts) and "0.5" in texts:
        return False
    divisors = {
        value_of(each.right)
        for each in parts
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div)
    }
    numbers = {value_of(side) for side in sides} - {None} - PLAIN - BYTE - divisors
    return bool(numbers) and not guards(texts, parts)


def guards(texts: list[str], parts: list[ast.AST]) -> bool:
    """Return True for ``len(x) > 6`` beside ``x[6]``, and ``len(x) < 7`` beside ``x[6]``."""
    reached = set()
    for part in parts:
        if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant):
            reached.add((f"len({ast.unparse(part.value)})", part.slice.value))
    length, number = texts[0], texts[1]
    return number.isdecimal() and bool({(length, int(number)), (length, int(number) - 1)} & reached)


def end(statement: ast.stmt) -> int:
    """Return the last line of a statement's head, without the statements in it."""
    body = getattr(statement, "body", None)
    return body[0].lineno - 1 if body else statement.end_lineno or statement.lineno


def reason(lines: list[str], first: int, last: int) -> str:
    """Return the comments on the lines of a statement, and those right above it.

    Assignments without a blank line between them share a comment.
    """
    own = [
        line.partition("#")[2]
        for line in lines[first:last]
        if "  # " in line or line.strip().startswith("#")
    ]
    row, above = first - 1, []
    while row >= 0 and lines[row].strip() and not above:
        if lines[row].strip().startswith("#"):
            while row >= 0 and lines[row].strip().startswith("#"):
                above.insert(0, lines[row].strip().lstrip("# "))
                row -= 1
        elif lines[row].endswith(":"):
            break
        row -= 1
    return " ".join(
        part.strip()
        for part in (*above, *own)
        if not part.strip().startswith(("fmt", "type:", "noqa"))
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--missing", action="store_true", help="list all places without a comment")
    options = parser.parse_args()
    every = [place for path in sorted((ROOT / "viper").rglob("*.py")) for place in places(path)]
    if options.missing:
        drawn = [place for place in every if not place.reason]
    else:
        drawn = random.Random(options.seed).sample(every, min(options.count, len(every)))
    for place in drawn:
        print(f"{place.path}:{place.line} [{place.kind}] {place.code}")
        print(f"    {place.reason or 'NO REASON'}")
    missing = sum(not place.reason for place in drawn)
    print(f"{len(drawn)} of {len(every)} drawn, {missing} without a comment")
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
