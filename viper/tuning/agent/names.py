"""Which outermost names some code reads and assigns, by its syntax alone.

Variables of comprehensions, loops, lambdas and functions are their own business: they are neither
read nor assigned outside, as far as turns of an agent are concerned.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass
class Names:
    """Names of a stretch of code.

    Attributes:
        stored: that it assigns, perhaps in a branch only.
        sure: that it assigns whatever happens.
        loaded: that it reads before it has surely assigned them.
    """

    stored: set[str] = field(default_factory=set)
    sure: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)

    def read(self, names: Iterable[str]) -> None:
        """Names that are read now."""
        self.loaded |= set(names) - self.sure

    def store(self, names: Iterable[str]) -> None:
        """Names that are assigned now, for sure."""
        found = set(names)
        self.stored |= found
        self.sure |= found

    def branch(self, *ways: Names) -> None:
        """Code of which one of several ways is gone; what all assign is sure."""
        for way in ways:
            self.read(way.loaded)
            self.stored |= way.stored
        self.sure |= set.intersection(*(way.sure for way in ways))


def names_of(statements: Sequence[ast.stmt], bound: frozenset[str] = frozenset()) -> Names:
    """The names of statements that follow each other.

    Args:
        bound: variables of loops and functions around them.
    """
    found = Names()
    for statement in statements:
        _statement(statement, bound, found)
    found.stored -= bound
    found.sure -= bound
    return found


def _statement(node: ast.stmt, bound: frozenset[str], found: Names) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        outside = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults]
        found.read(_read(outside, bound))
        inner = names_of(node.body, bound | _parameters(node.args))
        found.read(inner.loaded - inner.stored)
        found.store({node.name} - bound)
    elif isinstance(node, ast.ClassDef):
        found.read(_read([*node.decorator_list, *node.bases], bound))
        inner = names_of(node.body, bound)
        found.read(inner.loaded - inner.stored)
        found.store({node.name} - bound)
    elif isinstance(node, ast.For | ast.AsyncFor):
        found.read(_read([node.iter], bound))
        inside = bound | _targets([node.target])
        found.branch(names_of(node.body, inside), Names())
        found.branch(names_of(node.orelse, inside), Names())
    elif isinstance(node, ast.While):
        found.read(_read([node.test], bound))
        found.branch(names_of(node.body, bound), Names())
        found.branch(names_of(node.orelse, bound), Names())
    elif isinstance(node, ast.If):
        found.read(_read([node.test], bound))
        found.store(_walrus(node.test) - bound)
        found.branch(names_of(node.body, bound), names_of(node.orelse, bound))
    elif isinstance(node, ast.Try):
        handlers = [names_of(one.body, bound) for one in node.handlers]
        found.branch(names_of([*node.body, *node.orelse], bound), *handlers, Names())
        _in_order(node.finalbody, bound, found)
    elif isinstance(node, ast.With | ast.AsyncWith):
        found.read(_read([one.context_expr for one in node.items], bound))
        named = [one.optional_vars for one in node.items if one.optional_vars is not None]
        found.store(_targets(named) - bound)
        _in_order(node.body, bound, found)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        found.store({(one.asname or one.name).split(".")[0] for one in node.names} - bound)
    else:
        found.read(_read([node], bound))
        if isinstance(node, ast.AugAssign):
            found.read(_targets([node.target]) - bound)
        targets = _targets([node]) | _walrus(node)
        found.store(targets - bound)


def _in_order(statements: Sequence[ast.stmt], bound: frozenset[str], found: Names) -> None:
    inner = names_of(statements, bound)
    found.read(inner.loaded)
    found.stored |= inner.stored
    found.sure |= inner.sure


def _read(nodes: Iterable[ast.AST | None], bound: frozenset[str]) -> set[str]:
    """Names that expressions read, their own variables left out."""
    found: set[str] = set()
    for node in nodes:
        if node is None:
            continue
        if isinstance(node, ast.Name):
            found |= {node.id} - bound if isinstance(node.ctx, ast.Load) else set()
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            inside = bound
            for one in node.generators:
                found |= _read([one.iter], inside)
                inside |= _targets([one.target])
                found |= _read(one.ifs, inside)
            last = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            found |= _read(last, inside)
        elif isinstance(node, ast.Lambda):
            found |= _read([*node.args.defaults, *node.args.kw_defaults], bound)
            found |= _read([node.body], bound | _parameters(node.args))
        else:
            found |= _read(ast.iter_child_nodes(node), bound)
    return found


def _targets(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Names that assignments and loops assign; variables of expressions are no targets."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            found |= {node.id} if isinstance(node.ctx, ast.Store) else set()
        elif isinstance(node, ast.Tuple | ast.List | ast.Starred):
            found |= _targets(ast.iter_child_nodes(node))
        elif isinstance(node, ast.Assign):
            found |= _targets(node.targets)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            found |= _targets([node.target])
    return frozenset(found)


def _walrus(node: ast.AST) -> set[str]:
    return {one.target.id for one in ast.walk(node) if isinstance(one, ast.NamedExpr)}


def _parameters(arguments: ast.arguments) -> frozenset[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return frozenset(one.arg for one in every)
