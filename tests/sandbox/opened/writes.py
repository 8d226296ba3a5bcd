"""Any attribute and any item of any object may be assigned."""

from __future__ import annotations

import ast

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox import guards, policy
from viper.sandbox.prepass import Prepass

__all__ = ["READABLE", "decode", "encode", "names"]

_guarded = policy.ProgramPolicy.visit_Attribute
_renamed = Prepass.visit_Attribute


def _visit_attribute(self: policy.ProgramPolicy, node: ast.Attribute) -> ast.AST:
    if isinstance(node.ctx, ast.Load):
        return _guarded(self, node)
    return self.node_contents_visit(node)


def _visit_prepass(self: Prepass, node: ast.Attribute) -> ast.AST:
    if isinstance(node.ctx, ast.Load):
        return _renamed(self, node)
    return self.visit_children(node)


guards.Guards.write_attr = lambda self, obj: obj  # type: ignore[method-assign]
guards.Guards.write_item = lambda self, obj: obj  # type: ignore[method-assign]
guards._own_name = lambda name: name
policy.ProgramPolicy.visit_Attribute = _visit_attribute  # type: ignore[method-assign]
Prepass.visit_Attribute = _visit_prepass  # type: ignore[method-assign]
