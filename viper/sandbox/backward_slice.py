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
    nodes = ast.walk(tree) if function else ()
    functions = (node for node in nodes if isinstance(node, _FUNCTIONS))
    scope = next((node for node in functions if node.name == function), tree)
    tests_around = _enclosing_tests(scope)
    statements = [node for node in tests_around if isinstance(node, ast.stmt)]
    seeds: list[ast.stmt] = [node for node in statements if isinstance(node, ast.Return)]
    if line is not None:
        around = [s for s in statements if s.lineno <= line <= (s.end_lineno or s.lineno)]
        innermost = max(around, key=lambda s: (s.lineno, -(s.end_lineno or s.lineno)), default=None)
        seeds = [innermost] if innermost else []
    names, lines = set[str](), set[int]()
    for seed in seeds:
        names |= _names_read(seed)
        # of a statement its own lines, without its body
        lines |= {seed.lineno} if isinstance(seed, ast.Try | ast.With) else _span(_head(seed))
        for test in tests_around[seed]:
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


def _enclosing_tests(scope: ast.AST) -> dict[ast.AST, tuple[ast.expr, ...]]:
    """Return the nodes of a function, or of the top level, with the conditions around each."""
    tests_around: dict[ast.AST, tuple[ast.expr, ...]] = {}

    def walk(node: ast.AST, tests: tuple[ast.expr, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _FUNCTIONS):
                tests_around[child] = tests
                walk(child, tests if _head(child) is child else (*tests, _head(child)))

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
