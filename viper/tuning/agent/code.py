"""What code of a turn reads, writes and asks, by its syntax alone; nothing is run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from viper.prompting.exploring import FINAL
from viper.schema import Turn
from viper.tuning.agent.names import names_of

TOOLS = frozenset(
    ("find", "exists", "verify_property", "best_text_match", "simple_query", "compute_depth")
    + ("complex_query", "caption")
    + ("llm_query", "select_answer", "best_image_match", "best_description_from_options")
    + ("caption_video", "get_video_segment_of_event", "get_video_segment_before_event")
    + ("get_video_segment_after_event", "ocr", "image_search", "text_search")
)
"""Names behind which a model is asked."""

_CONVERTERS = frozenset({"bool_to_yesno", "bool_to_yn", "str", "int", "float", "bool"})
"""Calls that make nothing new of a constant."""

CANDIDATES = frozenset(("answer", "result", FINAL))
"""Names that hold an answer, rather than something on the way to one."""


@dataclass(frozen=True)
class CodeView:
    """Names of some code.

    Attributes:
        stored, sure, loaded: as :class:`viper.tuning.agent.names.Names` has them.
        tools: names of :data:`TOOLS` that it calls, in their order.
        gives: the name that its last statement assigns; "" for an expression, None otherwise.
        literal: what :data:`FINAL` is set to by a plain constant; None where it is not.
    """

    stored: frozenset[str] = frozenset()
    sure: frozenset[str] = frozenset()
    loaded: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ()
    gives: str | None = None
    literal: Any = None

    @property
    def is_candidate(self) -> bool:
        """Whether what its last statement is worth is held to be an answer."""
        return self.gives is not None and (self.gives == "" or self.gives in CANDIDATES)


@lru_cache(maxsize=4096)
def view(code: str) -> CodeView | None:
    """The names of some code; None where it does not parse."""
    try:
        tree = ast.parse(code)
        found = names_of(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    literal: Any = None
    for statement in tree.body:
        if FINAL in names_of([statement]).stored:
            literal = _constant(statement)
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [one.attr if isinstance(one, ast.Attribute) else _plain(one) for one in calls]
    return CodeView(
        frozenset(found.stored),
        frozenset(found.sure),
        frozenset(found.loaded),
        tuple(name for name in named if name in TOOLS),
        _gives(tree),
        literal,
    )


def stored_literal(turn: Turn) -> Any:
    """The constant that the code of a turn stored as the answer; None where it did not."""
    if turn.kind != "code" or turn.failure is not None:
        return None
    found = view(turn.text)
    return found.literal if found else None


def _plain(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _constant(statement: ast.stmt) -> Any:
    """The constant that a statement assigns, also by way of ``bool_to_yesno`` and its like."""
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:
        value = value.args[0] if _plain(value.func) in _CONVERTERS else None
    if isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant):
        return ast.unparse(value)
    return value.value if isinstance(value, ast.Constant) else None


def _gives(tree: ast.Module) -> str | None:
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        return ""
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
        return last.targets[0].id
    return None
