"""Tree walking at the speed that a millisecond budget needs.

The standard ``ast.NodeTransformer`` spends most of its time in generators and name
look-ups; a program is walked twice before it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

LEAVES: frozenset[type] = frozenset(
    kind
    for base in (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
    for kind in base.__subclasses__()
)
"""Nodes without content: contexts and operators. They are returned as they are."""


class FastTransformer(ast.NodeTransformer):
    """A ``NodeTransformer`` with cached dispatch; same meaning."""

    def __init__(self) -> None:
        super().__init__()
        self._methods: dict[type, Callable[[Any], Any]] = {}

    def visit(self, node: ast.AST) -> Any:
        """Visits a node; leaves are returned unchanged."""
        kind = type(node)
        if kind in LEAVES:
            return node
        method = self._methods.get(kind)
        return method(node) if method is not None else self._dispatch(kind)(node)

    def _dispatch(self, kind: type) -> Callable[[Any], Any]:
        method: Callable[[Any], Any] = getattr(self, "visit_" + kind.__name__, self.generic_visit)
        self._methods[kind] = method
        return method

    def visit_children(self, node: Any) -> Any:
        """Visits what a node holds, in place."""
        for name, value in list(node.__dict__.items()):
            if type(value) is list:
                value[:] = self._visited(value)
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    def _visited(self, items: list[Any]) -> list[Any]:
        found: list[Any] = []
        for item in items:
            result = self.visit(item) if isinstance(item, ast.AST) else item
            if type(result) is list:
                found += result
            else:
                found.append(result)
        return found
