"""Programs with one thing wrong, as a language model might have misread the query."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain


_OPPOSITE_NAMES = {
    "max": "min",
    "get_patch_left_of": "get_patch_right_of",
    "get_patch_above_of": "get_patch_below_of",
    "crop_left_of_bbox": "crop_right_of_bbox",
    "crop_above_bbox": "crop_below_bbox",
    "get_video_segment_before_event": "get_video_segment_after_event",
}
_SWAPPED = {**_OPPOSITE_NAMES, **{there: here for here, there in _OPPOSITE_NAMES.items()}}
_OTHER_ORDER = {
    "sort_patches_left_to_right": "sort_patches_bottom_to_top",
    "sort_patches_bottom_to_top": "sort_patches_front_to_back",
    "sort_patches_front_to_back": "sort_patches_left_to_right",
    "horizontal_center": "vertical_center",
    "vertical_center": "horizontal_center",
}
_COMPARED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}

_Edit = Callable[[ast.AST], None]


@dataclass(frozen=True)
class WrongProgram:
    """A program and what is wrong with it: ``direction``, ``superlative``, ``attribute``, …"""

    kind: str
    program: str


def wrong_programs(program: str, families: Sequence[Sequence[str]]) -> list[WrongProgram]:
    """Every program that differs from a right one in one of these ways; empty if it does not parse.

    Args:
        families: words that exclude each other; one of them may be taken for another.
    """
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = {}
    for place, node in enumerate(ast.walk(tree)):
        for kind, edit in _edits(node, families):
            changed = copy.deepcopy(tree)
            edit(list(ast.walk(changed))[place])
            text = ast.unparse(ast.fix_missing_locations(changed))
            if text != ast.unparse(tree):
                found.setdefault(text, WrongProgram(kind, text))
    return list(found.values())


def _edits(node: ast.AST, families: Sequence[Sequence[str]]) -> Iterator[tuple[str, _Edit]]:
    """Kinds of errors that this node allows, each with what makes it."""
    if isinstance(node, ast.Name) and node.id in _SWAPPED:
        kind = "superlative" if node.id in ("max", "min") else "direction"
        yield kind, _setting("id", _SWAPPED[node.id])
    elif isinstance(node, ast.Name) and node.id in _OTHER_ORDER:
        yield "order", _setting("id", _OTHER_ORDER[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in _SWAPPED:
        yield "direction", _setting("attr", _SWAPPED[node.attr])
    elif isinstance(node, ast.Attribute) and node.attr in _OTHER_ORDER:
        yield "order", _setting("attr", _OTHER_ORDER[node.attr])
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        yield "direction", _setting("ops", [_COMPARED[type(node.ops[0])]()])
    elif isinstance(node, ast.ListComp) and node.generators[0].ifs:
        yield "filter", _unfiltered
    elif isinstance(node, ast.Subscript):
        yield from _other_places(node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _other_words(node.value, families)


def _other_places(node: ast.Subscript) -> Iterator[tuple[str, _Edit]]:
    """The first for the last, the second for the second last, and the other way round."""
    index = _number(node.slice)
    if index is not None:
        mirrored = ast.Constant(-index - 1) if index < 0 else _negative(index + 1)
        yield "direction", _setting("slice", mirrored)


def _number(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _negative(value: int) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(value))


def _other_words(text: str, families: Sequence[Sequence[str]]) -> Iterator[tuple[str, _Edit]]:
    """Another word of a family, or the word left out where others follow it."""
    words = text.split()
    known = set(chain(*families))
    for place, word in enumerate(words):
        for family in families:
            if word in family:
                for other in family:
                    changed = [*words[:place], other, *words[place + 1 :]]
                    yield "attribute", _setting("value", " ".join(changed))
        if word in known and place < len(words) - 1:
            yield "filter", _setting("value", " ".join(words[:place] + words[place + 1 :]))


def _setting(name: str, value: object) -> _Edit:
    return lambda node: setattr(node, name, value)


def _unfiltered(node: ast.AST) -> None:
    assert isinstance(node, ast.ListComp)
    node.generators[0].ifs = []
