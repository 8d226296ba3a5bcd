"""Rewrites ordinary Python into the subset that the policy accepts, without changing its meaning.

Models write annotations, bare ``except:`` and names that begin with an underscore, and the policy
accepts none of these. Annotations are dropped, because they would be evaluated. Names such as
``_x`` get a reserved prefix, so after this pass no name of the program can collide with a guard.

A program is walked twice before it runs, within a millisecond. The standard ``ast.NodeTransformer``
spends most of its time in generators and name look-ups, so :class:`FastTransformer` replaces it,
here (:class:`Prepass`) and in the policy that follows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

# Bounds on the syntax tree: far above generated programs. Both passes and the compiler
# recurse, several frames a level, so the depth stays well below Python's limit of 1,000 frames.
MAX_NODES = 20_000
MAX_DEPTH = 100

# Nodes without content: contexts and operators. They are returned unchanged.
LEAVES: frozenset[type] = frozenset(
    kind
    for base in (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
    for kind in base.__subclasses__()
)


class FastTransformer(ast.NodeTransformer):
    """A ``NodeTransformer`` with cached dispatch and the same meaning."""

    def __init__(self) -> None:
        super().__init__()
        self._methods: dict[type, Callable[[Any], Any]] = {}

    def visit(self, node: ast.AST) -> Any:
        """Visit a node; leaves are returned unchanged."""
        kind = type(node)
        if kind in LEAVES:
            return node
        if kind not in self._methods:
            self._methods[kind] = getattr(self, "visit_" + kind.__name__, self.generic_visit)
        return self._methods[kind](node)

    def visit_children(self, node: Any) -> Any:
        """Visit the children of a node in place."""
        for name, value in list(node.__dict__.items()):
            if type(value) is list:
                value[:] = self._visit_items(value)
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        return node

    def _visit_items(self, items: list[Any]) -> list[Any]:
        nodes: list[Any] = []
        for item in items:
            result = self.visit(item) if isinstance(item, ast.AST) else item
            if type(result) is list:
                nodes += result
            else:
                nodes.append(result)
        return nodes


# Prefix of every name that begins with an underscore. It is reserved, so no author can use it, and
# it is an identifier, so the rewritten program is Python.
PREFIX = "under0"

# Class attribute that stores the names of annotated class variables, in order.
#
# It is not an identifier, so no name that a program writes can be rewritten to it.
FIELDS = PREFIX + ".fields"

# Rewritten name of the class variable that lists the attributes of positional patterns.
MATCH_ARGS = PREFIX + "__match_args__"

_CLASS_METHOD_WORDS = """
init post_init repr str len iter next contains bool hash call getitem setitem delitem eq ne lt le
gt ge add sub mul truediv floordiv mod neg abs radd rsub rmul and or xor
enter exit pos invert pow rpow rtruediv rfloordiv rmod iadd isub imul itruediv reversed round format
"""
# Special methods that a class of the program may define.
CLASS_METHODS = frozenset(f"__{word}__" for word in _CLASS_METHOD_WORDS.split())

# Special class variables that a program may set, as they reach nothing.
_IGNORED = frozenset(["__slots__", "__doc__", "__match_args__"])
# Names with a meaning for Python's enumerations, but not for those of programs.
_NO_EFFECT = frozenset(["_generate_next_value_", "_ignore_", "_order_"])

_RENAMED = re.compile(rf"\b{PREFIX}(?=_)")


def hidden(name: str) -> str:
    """Return the rewritten form of a program's name."""
    return PREFIX + name if name.startswith("_") and name != "_" else name


def authored(text: str) -> str:
    """Return the text with all names as the author wrote them."""
    return _RENAMED.sub("", text)


def is_special(name: str) -> bool:
    """Return whether the name has the form ``__x__``."""
    # `____` has both ends and nothing between them: Python treats it as a plain name
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


class PrepassError(Exception):
    """The program is too large, or uses the reserved prefix itself."""

    def __init__(self, message: str, line: int | None) -> None:
        self.line = line
        super().__init__(message)


def _renaming(field: str) -> Any:
    """Return the visitor of a node whose field holds a name, or nothing."""

    def visit(self: Prepass, node: Any) -> ast.AST:
        name = getattr(node, field)
        if name is not None:
            setattr(node, field, self._rename(name, node))
        return self.visit_children(node)

    return visit


class Prepass(FastTransformer):
    """The rewriting pass; it changes the tree in place and counts its nodes.

    Raises:
        PrepassError: while visiting.
    """

    def __init__(self) -> None:
        super().__init__()
        self._nodes = self._depth = 0

    def visit(self, node: ast.AST) -> Any:
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES:
            raise PrepassError(f"the program has more than {MAX_NODES} parts", None)
        if self._depth > MAX_DEPTH:
            line = getattr(node, "lineno", None)
            raise PrepassError(f"nested deeper than {MAX_DEPTH} levels", line)
        result = super().visit(node)
        self._depth -= 1
        return result

    generic_visit = FastTransformer.visit_children

    def _rename(self, name: str, node: ast.AST) -> str:
        if name.startswith(PREFIX + "_"):
            line = getattr(node, "lineno", None)
            raise PrepassError(f"names that begin with {PREFIX}_ are reserved: {name}", line)
        return hidden(name)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._rename(node.id, node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not is_special(node.attr):
            node.attr = self._rename(node.attr, node)
        return self.visit_children(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        node.name = self._rename(node.name, node)
        return self.visit_children(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        node.arg = self._rename(node.arg, node)
        return node

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.AST:
        node.names = [self._rename(name, node) for name in node.names]
        return node

    visit_Nonlocal = visit_Global
    visit_keyword = _renaming("arg")
    visit_alias = _renaming("asname")
    visit_MatchAs = _renaming("name")
    visit_MatchStar = _renaming("name")
    visit_MatchMapping = _renaming("rest")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.module == "__future__":
            return ast.copy_location(ast.Pass(), node)
        return self.visit_children(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        if node.type is None:
            node.type = ast.copy_location(ast.Name("Exception", ast.Load()), node)
        if node.name:
            node.name = self._rename(node.name, node)
        return self.visit_children(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        node.kwd_attrs = [
            name if is_special(name) else self._rename(name, node) for name in node.kwd_attrs
        ]
        return self.visit_children(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        assign = ast.Assign(targets=[node.target], value=node.value)
        return self.visit_children(ast.copy_location(assign, node))

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        fields = [
            hidden(item.target.id)
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        ]
        node.name = self._rename(node.name, node)
        self._check_special(node)
        special = [
            (item, item.name)
            for item in node.body
            if isinstance(item, ast.FunctionDef) and item.name in CLASS_METHODS
        ]
        self.visit_children(node)
        for method, name in special:
            method.name = name
        if fields:
            names = ast.Tuple([ast.Constant(name) for name in fields], ast.Load())
            keep = ast.Assign(targets=[ast.Name(FIELDS, ast.Store())], value=names)
            node.body.append(ast.fix_missing_locations(ast.copy_location(keep, node.body[-1])))
        return node

    def _check_special(self, node: ast.ClassDef) -> None:
        """Refuse special names of a class that would be ignored without a word."""
        for item in node.body:
            names = [item.name] if isinstance(item, ast.FunctionDef) else []
            if isinstance(item, ast.Assign):
                names = [target.id for target in item.targets if isinstance(target, ast.Name)]
            for name in names:
                method = isinstance(item, ast.FunctionDef) and name in CLASS_METHODS
                if is_special(name) and not method and name not in _IGNORED or name in _NO_EFFECT:
                    raise PrepassError(
                        f"a class cannot define {name}; of the special methods it may define: "
                        + " ".join(sorted(word.strip("_") for word in CLASS_METHODS)),
                        item.lineno,
                    )
