"""Replays a program with the results of its recorded calls, to see the value of each line.

:meth:`Replayer.replay` inserts reports after the program's lines (:func:`add_reports`) and runs it
on a client that answers from the trace. No model is called and nothing is decided again. So a run
does not pay for this, and any stored trace can be inspected later.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.api.library import Library
from viper.errors import PARSE_ERRORS, ToolError, ViperError
from viper.models.media import Media
from viper.sandbox import Limits, Prelude, Sandbox
from viper.sandbox.arrays import fitting
from viper.sandbox.sandbox import Mode
from viper.schema import Query, ToolCall
from viper.strategies.program import ENTRY, program_arguments
from viper.tools.call_log import from_plain, plain
from viper.tools.models import ModelSet
from viper.tools.session import ToolSession
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox

# Greatest number of reports of one program; an endless loop would report forever, and nobody
# reads a page of more lines.
MOST_EVENTS = 2_000

# Names that no program has; one that mentions them is not replayed.
_REPORT = "viper_line_report"
_VALUE = "viper_line_value"
# Failures that end a program from outside, so that its events may be incomplete.
_STOPPED = frozenset({"timeout", "memory", "output", "tool_budget", "protocol", "crash"})
# Reports make a program several times as long, and each costs a call, so both limits are far
# above those of runs; what is replayed was within those.
_SOURCE_KB = 512
_CALLS = 100_000


@dataclass(frozen=True)
class Event:
    """An event on a line, in the order of the run.

    Attributes:
        line: line of the program as its author wrote it, from 1.
        what: the name that was assigned, ``return``, ``for NAME``, ``while``, ``if``, or empty for
            the value of an expression.
        value: the value as JSON; see :func:`viper.tools.session.plain`.
        call: index of the tool call, if the event is a call; then ``what`` and ``value`` are empty.
    """

    line: int | None
    what: str = ""
    value: Any = None
    call: int | None = None


@dataclass(frozen=True)
class Replay:
    """The events of a program.

    Attributes:
        whole: False if the program left the path of the trace, or sent too many reports;
            ``events`` end there.
    """

    events: tuple[Event, ...]
    whole: bool = True


class Replayer:
    """Runs programs again in a separate sandbox; safe to use from several threads.

    Args:
        library: the names that the programs could call.
    """

    def __init__(self, library: Library, mode: Mode = "strict", time_s: float = 10) -> None:
        shipped = library.prelude()
        tools = [*shipped.config.get("tools", ()), _REPORT]
        prelude = Prelude(shipped.module, {**shipped.config, "tools": tools}, shipped.sources)
        limits = Limits(time_s=time_s, calls=_CALLS, source_kb=_SOURCE_KB)
        self._toolbox = Toolbox(ModelSet({}), ToolSettings())
        self._sandbox = Sandbox(prelude=prelude, limits=limits, mode=mode)

    def replay(self, program: str, calls: Sequence[ToolCall], query: Query, media: Media) -> Replay:
        """Return the values that the lines of a program produced.

        Args:
            calls: the calls that it made, with their results.
            media: the media of the query; a program may read their pixels.

        Raises:
            SandboxUnavailableError, SandboxHostError: no program can be run here.
        """
        instrumented = add_reports(program)
        if instrumented is None:
            return Replay((), whole=False)
        session = self._toolbox.session(media)
        if any(call.tool == "to_array" for call in calls):
            session.shared = fitting(media.named_images)
        client = _TraceClient(calls, session)
        arguments = program_arguments(query, media)
        try:
            outcome = self._sandbox.run(
                instrumented, tools=client, entry=ENTRY, args=arguments, arrays=session.shared
            )
        except _Diverged:
            return Replay(tuple(client.events), whole=False)
        stopped = outcome.failure is not None and outcome.failure.kind in _STOPPED
        return Replay(tuple(client.events), whole=not stopped)

    def close(self) -> None:
        """End the processes of the sandbox."""
        self._sandbox.close()

    def __enter__(self) -> Replayer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def add_reports(program: str) -> str | None:
    """Return the program with a report after each statement, or None if it does not parse."""
    try:
        tree = ast.parse(program)
        if _REPORT in program or _VALUE in program:
            return None
        return ast.unparse(ast.fix_missing_locations(_Reports().visit(tree)))
    except PARSE_ERRORS:
        return None


class _Diverged(ViperError):
    """The program makes other calls than the trace, or sends too many reports."""


class _TraceClient:
    """The tool client of a replay: returns results of the trace and receives the reports."""

    def __init__(self, calls: Sequence[ToolCall], pixels: ToolSession) -> None:
        self.events: list[Event] = []
        self._calls, self._pixels, self._next = calls, pixels, 0

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        if len(self.events) >= MOST_EVENTS:
            raise _Diverged("more reports than are kept")
        if name == _REPORT:
            where, what, value = args
            self.events.append(Event(where, what, plain(value)))
            return None
        if self._next >= len(self._calls) or self._calls[self._next].tool != name:
            raise _Diverged(f"call {self._next} is {name}, which the trace does not have there")
        recorded = self._calls[self._next]
        self._next += 1
        self.events.append(Event(recorded.line, call=recorded.index))
        if recorded.error is not None:
            raise ToolError(recorded.error)
        result = recorded.result
        if isinstance(result, Mapping) and result.get("kind") == "array":
            return self._pixels.nested(name, args, kwargs)
        return from_plain(recorded.result)


class _Reports(ast.NodeTransformer):
    """Inserts a report after assignments and returns, and at the start of branches and loops."""

    def visit_Assign(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[ast.stmt]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name for target in targets if node.value for name in _names(target)]
        return [node, *(_report(node, name, name) for name in names)]

    visit_AugAssign = visit_AnnAssign = visit_Assign

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        if isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom):
            return node
        return [_store_value(node.value), _report(node, "", _VALUE)]

    def visit_Return(self, node: ast.Return) -> ast.stmt | list[ast.stmt]:
        if node.value is None:
            return node
        back = ast.Return(ast.Name(_VALUE, ast.Load()))
        return [_store_value(node.value), _report(node, "return", _VALUE), back]

    def visit_For(self, node: ast.For) -> ast.stmt:
        self.generic_visit(node)
        target = ast.unparse(node.target)
        node.body.insert(0, _report(node, f"for {target}", target))
        return node

    def visit_While(self, node: ast.While) -> ast.stmt:
        self.generic_visit(node)
        node.body.insert(0, _report(node, "while", "True"))
        return node

    def visit_If(self, node: ast.If) -> ast.stmt:
        self.generic_visit(node)
        node.body.insert(0, _report(node, "if", "True"))
        node.orelse.insert(0, _report(node, "if", "False"))
        return node


def _names(target: ast.expr) -> list[str]:
    """Return the names that an assignment changes."""
    if isinstance(target, ast.Tuple | ast.List):
        return [name for part in target.elts for name in _names(part)]
    if isinstance(target, ast.Starred):
        return _names(target.value)
    return [ast.unparse(target)] if isinstance(target, ast.Name | ast.Attribute) else []


def _store_value(value: ast.expr) -> ast.stmt:
    """Assign a value to a reserved name, so that it is not computed twice."""
    return ast.Assign([ast.Name(_VALUE, ast.Store())], value)


def _report(node: ast.stmt, what: str, value: str) -> ast.stmt:
    """Return a statement that reports a value; a value that cannot leave the child is skipped."""
    call = f"{_REPORT}({node.lineno}, {what!r}, ({value}))"
    return ast.parse(f"try:\n    {call}\nexcept Exception:\n    pass").body[0]
