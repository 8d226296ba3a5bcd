"""The parent's side of one running program: its budgets, its calls and its end.

:meth:`TurnRunner.run` sends the program and then answers frames until the last one: calls go to
the tool client, printed text is kept, ``done`` becomes the outcome. Whatever breaks the protocol, a
budget or the deadline ends the child by force. Of a frame, nothing is used before its type is
checked.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from typing import Any

from viper.errors import CancelledError, ToolError
from viper.sandbox.interface import Call, EmptyCall, Limits, Outcome, ToolClient
from viper.sandbox.pool import Child, Pool
from viper.sandbox.prepass import authored
from viper.sandbox.wire import Raw, WireClosedError, WireError, WireTimeoutError, decode, encode
from viper.schema import Failure

# Failures that a child may report. The parent alone decides about the others (timeout, crash, …).
KINDS_FROM_CHILD = frozenset(
    ["syntax", "forbidden", "runtime", "tool", "return_type", "memory", "recursion", "output"]
)
# Seconds of all tool calls of a program: above what those of large models take on a processor.
MOST_TOOL_S = 600.0

# Seconds after which a cancelled run is noticed: below what a person notices.
_POLL_S = 0.05

# Characters of any text from a child that goes into a failure; its own bound is 600.
_MAX_TEXT = 1000

# Entries of the list of empty calls: more than the calls that any limit in use allows.
_MAX_EMPTY = 10_000


class TurnRunner:
    """Runs one program in a child and watches over it.

    Attributes:
        forced: the program was ended by force, so the child cannot be used again.
    """

    def __init__(
        self,
        pool: Pool,
        child: Child,
        tools: ToolClient,
        limits: Limits,
        cancel: threading.Event | None,
    ) -> None:
        self._pool, self._child, self._tools = pool, child, tools
        self._limits, self._cancel = limits, cancel
        self.forced = False
        self._calls: list[Call] = []
        self._printed: list[str] = []
        self._room = int(limits.output_kb * 1024)
        self._tool_s = 0.0
        # Eight results: programs that send pictures in calls need several; a flood has no end.
        self._max_traffic = int(limits.result_kb * 8192)
        self._received_before = child.channel.received
        self._started = self._deadline = 0.0
        self._source: list[str] = []
        self._advice: str | None = None

    def run(
        self,
        code: str,
        entry: str | None,
        args: Mapping[str, Any],
        last: bool,
        shows: bool = False,
        apart: bool = False,
    ) -> Outcome:
        """Run ``code`` and return its outcome.

        Args:
            last: the child ends after this turn.
            shows: return the value of the last statement.
            apart: the child forgets this turn before it replies.

        Raises:
            CancelledError: the cancel event was set.
            Exception: any exception of the tools except ToolError.
        """
        self._started = time.monotonic()
        self._deadline = self._started + self._limits.time_s
        try:
            code.encode()
        except UnicodeEncodeError:
            failure = Failure("syntax", "the program is not valid text")
            return self._outcome(False, failure=failure)
        self._source = code.splitlines()
        raw: list[memoryview] = []
        meta = {
            "t": "run",
            "code": code,
            "entry": entry,
            "args": encode(dict(args), raw),
            "session": not last,
            "shows": shows,
            "apart": apart,
        }
        try:
            self._child.channel.send(meta, raw, self._deadline)
            return self._serve()
        except WireTimeoutError:
            line, function = self._child.where()
            name = authored(function) if function and not function.startswith("<") else None
            message = f"the program ran longer than {self._limits.time_s:g} s"
            return self._fail_by_force("timeout", message, self._parse_line(line), name)
        except WireClosedError:
            return self._fail_death()
        except WireError as error:
            message = f"the program's process broke the protocol: {error}"
            return self._fail_by_force("protocol", message)

    def _serve(self) -> Outcome:
        while True:
            meta, raw = self._receive()
            printed = meta.get("o", "")
            if type(printed) is str:
                self._printed.append(printed[: self._room])
                self._room -= len(self._printed[-1])
            kind = meta.get("t")
            if self._child.channel.received - self._received_before > self._max_traffic:
                return self._fail_by_force("output", "the program sends more than its limit")
            if kind == "call":
                if self._tool_s > MOST_TOOL_S:
                    message = f"the tools worked longer than {MOST_TOOL_S:g} s for the program"
                    return self._fail_by_force("tool_budget", message)
                if len(self._calls) >= self._limits.calls:
                    name, line = meta.get("n"), self._parse_line(meta.get("l"))
                    tool = name[:_MAX_TEXT] if type(name) is str else None
                    message = f"the program made more than {self._limits.calls} tool calls"
                    return self._fail_by_force("tool_budget", message, line, tool=tool)
                self._answer(meta, raw)
            elif kind == "done":
                return self._done(meta, raw)
            elif kind != "text":
                raise WireError("an unexpected message")

    def _receive(self) -> tuple[dict[str, Any], Raw]:
        check_running = getattr(self._tools, "check_running", None)
        waiting = self._cancel is not None
        while waiting:
            if self._cancel is not None and self._cancel.is_set():
                raise CancelledError("the run was cancelled")
            if check_running is not None:
                check_running()
            left = self._deadline - time.monotonic()
            waiting = left > 0 and not self._child.channel.wait(min(_POLL_S, left))
        return self._child.channel.receive(self._deadline)

    def _answer(self, meta: Mapping[str, Any], raw: Raw) -> None:
        """Pass one call to the tools and send the result back."""
        name, args, kwargs, line = _parse_call(meta, raw)
        begun = time.monotonic()
        result, message, self._advice = None, None, None
        try:
            result = self._tools.call(name, args, kwargs, line)
        except ToolError as error:
            message, self._advice = error.problem, error.advice
        seconds = time.monotonic() - begun
        self._tool_s += seconds
        self._deadline += seconds
        index = len(self._calls)
        self._calls.append(Call(index, name, args, kwargs, result, line, seconds, message))
        parts: list[memoryview] = []
        reply = {"t": "result", "v": encode(result, parts)}
        if message is not None:
            reply = {"t": "error", "m": message[:_MAX_TEXT]}
        self._child.channel.send(reply, parts, self._deadline)

    def _done(self, meta: Mapping[str, Any], raw: Raw) -> Outcome:
        empty = _parse_empty_calls(meta.get("e", []), len(self._calls))
        if meta.get("ok") is True:
            value, lines = decode(meta.get("v"), raw), meta.get("l", [])
            if type(lines) is not list or len(lines) > len(self._source) + 1:
                raise WireError("a malformed list of lines")
            known = frozenset(line for line in lines if self._parse_line(line) is not None)
            return self._outcome(True, value=value, empty_calls=empty, answer_lines=known)
        return self._outcome(False, failure=self._parse_failure(meta.get("f")), empty_calls=empty)

    def _parse_failure(self, data: Any) -> Failure:
        kind = data.get("kind") if type(data) is dict else None
        if type(kind) is not str or kind not in KINDS_FROM_CHILD:
            raise WireError("a malformed failure")
        texts = {
            name: data[name][:_MAX_TEXT]
            for name in ("message", "function", "exception", "tool", "name", "owner")
            if type(data.get(name)) is str
        }
        line, message = self._parse_line(data.get("line")), texts.pop("message", "")
        index = data.get("call_index")
        if type(index) is not int or not 0 <= index < len(self._calls):
            index = None
        if index is not None and index == len(self._calls) - 1:
            texts["advice"] = self._advice
        return Failure(kind, message, line, self._source_line(line), call_index=index, **texts)

    def _parse_line(self, line: Any) -> int | None:
        return line if type(line) is int and 0 < line <= len(self._source) + 1 else None

    def _source_line(self, line: int | None) -> str | None:
        return self._source[line - 1] if line and line <= len(self._source) else None

    # Ends by force

    def _fail_death(self) -> Outcome:
        self._child.signal(signal.SIGKILL)
        status = self._pool.status(self._child)
        if status is None:
            end = "ended without an answer"
        elif not os.WIFSIGNALED(status):
            end = f"ended with status {os.WEXITSTATUS(status)}, no answer"
        elif os.WTERMSIG(status) == signal.SIGXCPU:
            return self._fail_by_force("timeout", "the program used up its processor time")
        elif os.WTERMSIG(status) == getattr(signal, "SIGSYS", None):
            end = "tried a forbidden system call"
        else:
            end = f"was ended by {signal.Signals(os.WTERMSIG(status)).name}"
        return self._fail_by_force("crash", f"the program's process {end}")

    def _fail_by_force(
        self,
        kind: str,
        message: str,
        line: int | None = None,
        function: str | None = None,
        tool: str | None = None,
    ) -> Outcome:
        self.forced = True
        self._child.kill()
        failure = Failure(kind, message, line, self._source_line(line), function, tool=tool)
        return self._outcome(False, failure=failure)

    def _outcome(self, ok: bool, **fields: Any) -> Outcome:
        return Outcome(
            ok,
            stdout="".join(self._printed),
            calls=tuple(self._calls),
            seconds=time.monotonic() - self._started - self._tool_s,
            tool_seconds=self._tool_s,
            **fields,
        )


def _parse_call(
    meta: Mapping[str, Any], raw: Raw
) -> tuple[str, tuple[Any, ...], dict[str, Any], int | None]:
    name, args, kwargs, line = meta.get("n"), meta.get("a"), meta.get("k"), meta.get("l")
    if type(name) is not str or type(args) is not list or type(kwargs) is not list:
        raise WireError("a malformed call")
    values = tuple([decode(arg, raw) for arg in args])
    named: dict[str, Any] = {}
    for pair in kwargs:
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:
            raise WireError("a malformed keyword")
        named[pair[0]] = decode(pair[1], raw)
    return name[:200], values, named, line if type(line) is int and line > 0 else None


def _parse_empty_calls(data: Any, calls: int) -> tuple[EmptyCall, ...]:
    if type(data) is not list or len(data) > _MAX_EMPTY:
        raise WireError("a malformed list of empty calls")
    empty = []
    for item in data:
        if type(item) is not list or len(item) != 2 or type(item[0]) is not int:
            raise WireError("a malformed empty call")
        if 0 <= item[0] < calls:
            empty.append(EmptyCall(item[0], item[1] is True))
    return tuple(empty)
