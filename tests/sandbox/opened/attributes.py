"""Any attribute of any object may be read, by any name."""

from __future__ import annotations

import ast
import unicodedata  # noqa: F401  (the parser needs it for names that are not ASCII)
from typing import Any

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox import guards, policy
from viper.sandbox.modules import Facade
from viper.sandbox.prepass import FastTransformer, Prepass

__all__ = ["READABLE", "decode", "encode", "names"]


def _visit_attribute(self: policy.ProgramPolicy, node: ast.Attribute) -> ast.AST:
    node = self.node_contents_visit(node)
    if isinstance(node.ctx, ast.Load):
        return policy._call("_getattr_", node, node.value, ast.Constant(node.attr))
    node.value = policy._call("_write_attr_", node, node.value)
    return node


def _read(obj: Any, name: str) -> Any:
    if type(obj) is Facade and name in obj._members:
        return obj._members[name]
    return getattr(obj, name)


guards.Guards._make_getattr = lambda self: _read  # type: ignore[method-assign]
guards._own_name = lambda name: name
policy.ProgramPolicy.visit_Attribute = _visit_attribute  # type: ignore[method-assign]
Prepass.visit_Attribute = FastTransformer.visit_children  # type: ignore[assignment,method-assign]
