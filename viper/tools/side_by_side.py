"""Asks for what a program will certainly need, before the program comes to it.

A program makes its calls one after another, and each waits for an endpoint. :func:`calls_in_loops`
reads from the syntax tree which calls every round of a loop over found objects makes, and
:class:`LookAhead` makes those of all rounds at once. :func:`names_to_find` lists what a program
looks for, so that one request asks for all of it. Log, usage and answers stay those of a program
that waits, unless an earlier round fails.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from viper.api.image_patch import ImagePatch
from viper.api.registry import visibility_of
from viper.errors import PARSE_ERRORS
from viper.models.llm.protocol import Payer
from viper.sandbox import Ref

# Calls of one program at the same time: as many as an endpoint's client sends at once by default.
SIDE_BY_SIDE = 8

# Names in one detection request: more make replies long and boxes worse.
MOST_NAMES = 8

# Statements after which a later round, or the rest of a round, may not run.
_LEAVES = (
    *(ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Assert, ast.Try, ast.While),
    *(ast.Yield, ast.YieldFrom),
)

# Length of the longest name of a thing; longer literals belong to other methods ``find``.
LONGEST_NAME = 80


class LoopCall(NamedTuple):
    """A method that a line calls on each result of ``find``; ``args`` are without the patch."""

    find_args: tuple[Any, ...]
    method: str
    args: tuple[Any, ...]
    line: int


class Session(Protocol):
    """What :class:`LookAhead` needs of a :class:`~viper.tools.session.ToolSession`."""

    toolbox: Any
    payer: Payer

    def nested(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def ahead(self, name: str, args: tuple[Any, ...]) -> Any: ...
    def take_over(self, early: Any) -> Any: ...


class LookAhead:
    """What one program will need; its text is read only if a model behind an endpoint is asked."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._found: dict[tuple[Any, ...], list[Any]] = {}
        self._early: dict[tuple[str, tuple[Any, ...]], Future[Session]] = {}
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE)  # starts no thread before the first call

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names that the program looks for."""
        return names_to_find(self._program)

    @cached_property
    def _loops(self) -> set[LoopCall]:
        return calls_in_loops(self._program)

    @contextmanager
    def running(self) -> Iterator[None]:
        """End what is not needed with the block, after the requests that are under way."""
        try:
            yield
        finally:
            self._pool.shutdown(cancel_futures=True)

    def result(self, session: Session, name: str, args: tuple[Any, ...], line: Any) -> Any:
        """Return the result of a call without names, which may be under way already."""
        if not self._program or not all(isinstance(arg, str | Ref) for arg in args):
            return session.nested(name, args, {})
        if self._found and _asks_endpoint(session, name):
            for call in self._loops:
                patches = self._found.get(call.find_args, [])
                if call[1:] == (name, args[1:], line) and patches[:1] == [args[0]]:
                    self._begin(session, call, patches)
        early = self._early.pop((name, args), None)
        if early is not None:
            return session.take_over(early.result())
        result = session.nested(name, args, {})
        if name == "find":
            self._found[args[1:]] = result
        return result

    def _begin(self, session: Session, call: LoopCall, patches: list[Any]) -> None:
        for patch in patches[: int(min(len(patches), session.payer.room()))]:
            shadow, args = copy.copy(session), (patch, *call.args)
            if (call.method, args) not in self._early:
                self._early[call.method, args] = self._pool.submit(shadow.ahead, call.method, args)


def _asks_endpoint(session: Session, method: str) -> bool:
    """Return whether a method of patches asks a language model that serves callers at once."""
    visibility = visibility_of(getattr(ImagePatch, method, None))
    role, trait = visibility.needs if visibility else "", session.toolbox.models.trait
    return bool(
        role and trait(role, "asks_language_model", False) and trait(role, "concurrent", False)
    )


def names_to_find(program: str) -> tuple[str, ...]:
    """Return the names that a program gives to ``find`` and ``exists`` as literals, in order."""
    calls = (node for node in ast.walk(_tree(program)) if isinstance(node, ast.Call))
    named = (
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("find", "exists")
        and call.args
        and isinstance(call.args[0], ast.Constant)
    )
    names = (name for name in named if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME)
    return tuple(dict.fromkeys(names))[:MOST_NAMES]


def calls_in_loops(program: str) -> set[LoopCall]:
    """Return the calls that loops over the results of ``find`` make in each round.

    A call counts if its arguments are constants, nothing leaves the loop early, no condition stands
    before the call, and the loop goes over the whole result of one ``find``.
    """
    tree, calls = _tree(program), set()
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For) and not any(isinstance(n, _LEAVES) for n in ast.walk(loop)):
            target, source = loop.target, loop.iter
            parts = [getattr(each, "test", getattr(each, "value", None)) for each in loop.body]
            places = [each for each in parts if isinstance(each, ast.expr)]
        elif isinstance(loop, ast.ListComp) and len(loop.generators) == 1:
            (part,) = loop.generators
            target, source, places = part.target, part.iter, part.ifs[:1] or [loop.elt]
        else:
            continue
        found = _find_args(source, tree)
        if found is None or not isinstance(target, ast.Name) or _stores(loop, target.id) > 1:
            continue
        with suppress(RecursionError):  # an expression that is too deep counts for nothing
            places = [call for place in places for call in _certain_calls(place)]
        for call in (place for place in places if isinstance(place, ast.Call)):
            args, method = _constants(call), call.func
            if args is None or not isinstance(method, ast.Attribute):
                continue
            if _is(method.value, target.id):
                calls.add(LoopCall(found, method.attr, args, call.lineno))
    return calls


def _tree(program: str) -> ast.AST:
    try:
        return ast.parse(program)
    except (*PARSE_ERRORS, SystemError):  # Python 3.11 raises the last when threads parse at once
        return ast.Module([], [])


def _find_args(source: ast.expr, tree: ast.AST) -> tuple[Any, ...] | None:
    """Return the arguments of the ``find`` whose whole result a loop goes over, else None."""
    if isinstance(source, ast.Name):
        name, nodes = source.id, list(ast.walk(tree))
        changed = any(
            isinstance(n, ast.Attribute) or not isinstance(n.ctx, ast.Load)
            for n in nodes
            if isinstance(n, ast.Attribute | ast.Subscript) and _is(n.value, name)
        )
        values = [n.value for n in nodes if isinstance(n, ast.Assign) and _is(n.targets[0], name)]
        if changed or len(values) != 1 or _stores(tree, name) != 1:
            return None
        source = values[0]
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute):
        return _constants(source) if source.func.attr == "find" else None
    return None


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


def _stores(tree: ast.AST, name: str) -> int:
    return sum(_is(n, name) and not isinstance(n.ctx, ast.Load) for n in ast.walk(tree))  # type: ignore[attr-defined]


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
