"""A small backward slice over names: find the lines that fed the line that failed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def feeding_lines(tree: ast.Module, line: int | None, function: str | None) -> frozenset[int]:
    """Return the lines whose values may have reached the statement at ``line``.

    The slice follows names backwards through assignments, loops and comprehensions of the same
    function. It ignores the order of statements and includes the conditions around the line.

    Args:
        line: the failing line; None means the ``return`` statements of ``function``.
        function: name of the function the line is in, None for the top level.
    """
    scope = _scope(tree, function)
    statements = [node for node in _statements(scope) if isinstance(node, ast.stmt)]
    seeds: list[ast.stmt] = [node for node in statements if isinstance(node, ast.Return)]
    if line is not None:
        around = [s for s in statements if s.lineno <= line <= (s.end_lineno or s.lineno)]
        innermost = max(around, key=lambda s: (s.lineno, -(s.end_lineno or s.lineno)), default=None)
        seeds = [innermost] if innermost else []
    parents = _enclosing_tests(scope)
    names, lines = set[str](), set[int]()
    for seed in seeds:
        names |= _names_read(seed)
        lines |= _own_lines(seed)
        for test in parents.get(seed, ()):
            names |= _names_read(test)
            lines |= _span(test)
    sources = [source for node in statements for source in _sources(node)]
    is_growing = True
    while is_growing:
        is_growing = False
        for targets, read, span in sources:
            if targets & names and not (read <= names and span <= lines):
                names |= read
                lines |= span
                is_growing = True
    return frozenset(lines)


def _scope(tree: ast.Module, function: str | None) -> ast.AST:
    if function:
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTIONS) and node.name == function:
                return node
    return tree


def _statements(scope: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, _FUNCTIONS):
            continue
        yield child
        yield from _statements(child)


def _enclosing_tests(scope: ast.AST) -> dict[ast.AST, tuple[ast.expr, ...]]:
    tests_around: dict[ast.AST, tuple[ast.expr, ...]] = {}

    def walk(node: ast.AST, tests: tuple[ast.expr, ...]) -> None:
        tests_around[node] = tests
        if _head(node) is not node:
            tests = (*tests, _head(node))
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _FUNCTIONS):
                walk(child, tests)

    walk(scope, ())
    return tests_around


def _sources(node: ast.AST) -> Iterator[tuple[set[str], set[str], set[int]]]:
    """Yield (names assigned, names read, lines) for each data flow in one statement."""
    if isinstance(node, ast.Assign):
        yield set().union(*map(_names_assigned, node.targets)), _names_read(node.value), _span(node)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        read = _names_read(node.value) if node.value else set()
        yield _names_assigned(node.target), read, _span(node)
    elif isinstance(node, ast.For):
        yield _names_assigned(node.target), _names_read(node.iter), _span(node.iter)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func  # xs.append(y), xs.sort(key=...)
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            yield {function.value.id}, _names_read(node.value), _span(node)
    if isinstance(node, ast.stmt):
        for part in ast.walk(node):
            if isinstance(part, ast.NamedExpr):
                yield _names_assigned(part.target), _names_read(part.value), _span(part)


def _head(node: Any) -> Any:
    """Return the part of a statement that its body hangs on, or else the whole statement."""
    if isinstance(node, ast.If | ast.While):
        return node.test
    return node.iter if isinstance(node, ast.For) else node


def _own_lines(node: ast.AST) -> set[int]:
    """Return the lines of a statement without its body."""
    if isinstance(node, ast.Try | ast.With):
        return {node.lineno}
    return _span(_head(node))


def _span(node: ast.AST) -> set[int]:
    start = getattr(node, "lineno", 0)
    return set(range(start, (getattr(node, "end_lineno", None) or start) + 1))


def _names_read(node: ast.AST) -> set[str]:
    return {
        part.id
        for part in ast.walk(_head(node))
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
    }


def _names_assigned(node: ast.AST) -> set[str]:
    names = {
        p.id for p in ast.walk(node) if isinstance(p, ast.Name) and not isinstance(p.ctx, ast.Load)
    }
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.value, ast.Name):
        names.add(node.value.id)
    return names
