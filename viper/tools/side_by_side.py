"""Finds the calls that a program makes on every object of a list, which may run side by side.

:func:`calls_in_loops` reads the syntax tree and reports a call only if each round of the loop makes
it with the same constant arguments: the loop goes over all results of one ``find``, nothing leaves
it early, and no condition stands before the call. So no request is sent that the program would not
send itself, unless an earlier round fails.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from viper.errors import PARSE_ERRORS

# Statements after which a later round, or the rest of a round, may not run.
_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Assert, ast.Try, ast.While)


class LoopCall(NamedTuple):
    """A method that a line calls on each result of ``find``; ``args`` are without the patch."""

    find_args: tuple[Any, ...]
    method: str
    args: tuple[Any, ...]
    line: int


def calls_in_loops(program: str) -> set[LoopCall]:
    """Return the calls that loops over the results of ``find`` make in each round."""
    try:
        tree = ast.parse(program)
    except PARSE_ERRORS:
        return set()
    calls = set()
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For) and not any(isinstance(n, _LEAVES) for n in ast.walk(loop)):
            places = [getattr(each, "test", getattr(each, "value", None)) for each in loop.body]
            source = loop
        elif isinstance(loop, ast.ListComp) and len(loop.generators) == 1:
            source = loop.generators[0]  # type: ignore[assignment]
            places = source.ifs[:1] or [loop.elt]  # type: ignore[attr-defined]
        else:
            continue
        found = _find_call(source.iter, tree)
        if found is None or not isinstance(source.target, ast.Name):
            continue
        named = [node for node in ast.walk(loop) if _is(node, source.target.id)]
        if sum(isinstance(node.ctx, ast.Store) for node in named) > 1:  # type: ignore[attr-defined]
            continue
        for call in (call for place in places if place for call in _certain_calls(place)):
            function = call.func
            if isinstance(function, ast.Attribute) and _is(function.value, source.target.id):
                args = _constants(call)
                if args is not None:
                    calls.add(LoopCall(found, function.attr, args, call.lineno))
    return calls


def _find_call(source: ast.expr, tree: ast.AST) -> tuple[Any, ...] | None:
    """Return the arguments of the ``find`` whose whole result a loop goes over; None if unsure."""
    if isinstance(source, ast.Name):
        name = source.id
        uses = [node for node in ast.walk(tree) if _is(node, name)]
        safe = {id(value) for node in ast.walk(tree) for value in _readers(node)}
        values = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and _is(node.targets[0], name)
        ]
        stores = [use for use in uses if not isinstance(use.ctx, ast.Load)]  # type: ignore[attr-defined]
        if (
            len(values) != 1
            or len(stores) != 1
            or any(id(use) not in safe for use in uses if use not in stores)
        ):
            return None
        source = values[0]
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute):
        return _constants(source) if source.func.attr == "find" else None
    return None


def _readers(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that only read a list: loops, ``len`` and truth tests."""
    if isinstance(node, ast.For | ast.comprehension):
        yield node.iter
    elif isinstance(node, ast.If | ast.IfExp):
        yield node.test
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Call) and _is(node.func, "len"):
        yield from node.args


def _certain_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that the evaluation of an expression always makes."""
    if isinstance(node, ast.Call):
        yield node
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.BoolOp):
        children = [node.values[0]]
    elif isinstance(node, ast.IfExp):
        children = [node.test]
    elif isinstance(node, ast.Compare):
        children = [node.left, node.comparators[0]]
    elif isinstance(node, ast.Lambda) or hasattr(node, "generators"):
        children = []
    for child in children:
        yield from _certain_calls(child)


def _constants(call: ast.Call) -> tuple[Any, ...] | None:
    if call.keywords or not all(isinstance(arg, ast.Constant) for arg in call.args):
        return None
    return tuple(arg.value for arg in call.args if isinstance(arg, ast.Constant))


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
