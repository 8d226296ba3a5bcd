"""What code of a turn reads, writes and asks, by its syntax alone; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from viper.prompting.exploring import FINAL
from viper.tuning.agent.names import names_of

_SAME = (
    *("find", "exists", "verify_property", "best_text_match", "simple_query", "compute_depth"),
    *("complex_query", "llm_query", "select_answer", "best_image_match", "ocr", "caption_video"),
    *("best_description_from_options", "image_search", "text_search"),
)

TOOLS = {name: name for name in _SAME} | {
    "caption": "caption_image",
    "sort_patches_front_to_back": "compute_depth",
    "get_video_segment_of_event": "locate_event",
    "get_video_segment_before_event": "locate_event",
    "get_video_segment_after_event": "locate_event",
}
"""Names behind which a model is asked, and the calls that traces hold of them."""

_CONVERTERS = frozenset({"bool_to_yesno", "bool_to_yn", "str", "int", "float", "bool"})
"""Calls that make nothing new of a constant."""

CANDIDATES = frozenset(("answer", "result", FINAL))
"""Names that hold an answer, rather than something on the way to one."""


@dataclass(frozen=True)
class CodeView:
    """Names of some code.

    Attributes:
        stored, sure, loaded: as :class:`viper.tuning.agent.names.Names` has them.
        tools: what it calls of :data:`TOOLS`, in the order of evaluation: of calls within one
            another the inner one first.
        gives: the name that its last statement assigns; "" for an expression, None otherwise.
    """

    stored: frozenset[str] = frozenset()
    sure: frozenset[str] = frozenset()
    loaded: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ()
    gives: str | None = None

    @property
    def is_candidate(self) -> bool:
        """Whether it ends with storing an answer. A value that it only shows may be one on the
        way to it."""
        return self.gives in CANDIDATES


@lru_cache(maxsize=4096)
def view(code: str) -> CodeView | None:
    """The names of some code; None where it does not parse."""
    try:
        tree = ast.parse(code)
        found = names_of(tree.body)
        called = [one.func for one in _evaluated(tree) if isinstance(one, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    named = [one.attr if isinstance(one, ast.Attribute) else _plain(one) for one in called]
    return CodeView(
        frozenset(found.stored),
        frozenset(found.sure),
        frozenset(found.loaded),
        tuple(TOOLS[name] for name in named if name in TOOLS),
        _gives(tree),
    )


@dataclass(frozen=True)
class Written:
    """A constant that code spells out, and the place of the turn that does."""

    value: Any
    place: int


def constants_after(
    code: str, known: Mapping[str, Written], place: int
) -> tuple[dict[str, Written], Written | None]:
    """The names that hold constants once some code has run, and the constant that its last
    statement is worth.

    A constant stays one under another name, and by way of ``str``, ``bool_to_yesno`` and their
    like. Code that does not parse changes nothing.

    Args:
        known: the names that hold constants before it.
        place: of its turn.
    """
    found, shown = dict(known), None
    try:
        tree = ast.parse(code)
        for statement in tree.body:
            shown = _constant(statement, found, place)
            for name in names_of([statement]).stored:
                found.pop(name, None)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            target = statement.target if isinstance(statement, ast.AnnAssign) else target
            if shown is not None and isinstance(target, ast.Name):
                found[target.id] = shown
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return dict(known), None
    return found, shown


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all within it, each after what it is made of."""
    parts = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        parts = [*node.generators, *(one for one in parts if one not in node.generators)]
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        parts = sorted(parts, key=lambda one: one is not node.value)
    for part in parts:
        yield from _evaluated(part)
    yield node


def _plain(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _constant(statement: ast.stmt, known: Mapping[str, Written], place: int) -> Written | None:
    """The constant that a statement assigns or shows."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
        return None
    value = statement.value
    while isinstance(value, ast.Call):
        if len(value.args) != 1 or value.keywords or _plain(value.func) not in _CONVERTERS:
            return None
        value = value.args[0]
    if isinstance(value, ast.Name):
        return known.get(value.id)
    if isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant):
        return Written(ast.unparse(value), place)
    if isinstance(value, ast.Constant) and value.value is not None:
        return Written(value.value, place)
    return None


def _gives(tree: ast.Module) -> str | None:
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        return ""
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
        return last.targets[0].id
    return None
