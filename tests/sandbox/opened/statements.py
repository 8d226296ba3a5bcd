"""Statements that the policy refuses are compiled: coroutines, ``except*``, class patterns."""

from __future__ import annotations

import ast
from typing import Any

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox import policy

__all__ = ["READABLE", "decode", "encode", "names"]


class Lenient(policy.ProgramPolicy):
    """Visits what the real policy refuses, and keeps the keywords of a class."""

    visit_AsyncFunctionDef = policy.ProgramPolicy.visit_FunctionDef
    visit_Await = policy.ProgramPolicy.node_contents_visit
    visit_AsyncFor = visit_AsyncWith = visit_TryStar = visit_Await
    visit_MatchClass = visit_MatchMapping = visit_MatchValue = visit_Await

    def guard_iter(self, node: Any) -> Any:
        return self.node_contents_visit(node)

    visit_For = visit_comprehension = guard_iter

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        given, node.keywords = node.keywords, []
        made = super().visit_ClassDef(node)
        node.keywords = [self.visit(keyword) for keyword in given] or node.keywords
        return made


policy.ProgramPolicy = Lenient  # type: ignore[misc]
