"""The process that runs one program, or one session, and then ends."""

from __future__ import annotations

import ast
import faulthandler
import gc
import importlib
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, NoReturn

from viper.sandbox import entry as entries
from viper.sandbox.blame import feeding_lines
from viper.sandbox.calls import FILENAME, ToolCaller, ToolError, is_empty
from viper.sandbox.classes import Forbidden
from viper.sandbox.facades import build_facades
from viper.sandbox.guards import Guards, is_hidden_builtin
from viper.sandbox.lockdown import BALLAST_BYTES, PROGRAM_FD, TRACE_FD, Lockdown
from viper.sandbox.names import OutputLimitError, Printer, import_guards, program_builtins
from viper.sandbox.policy import PolicyError, Program, compile_program
from viper.sandbox.prepass import authored, hidden
from viper.sandbox.wire import Channel, WireClosedError, WireError, decode, encode, pack

_MAX_MESSAGE = 500
_FROM_PARENT = 1 << 30


@dataclass(frozen=True)
class ChildConfig:
    """What a zygote tells its children; all of it comes from the parent at boot."""

    prelude_module: str
    prelude_config: Mapping[str, Any]
    source_bytes: int
    output_chars: int
    message_bytes: int


class Child:
    """Runs what the parent sends over one channel."""

    def __init__(self, channel: Channel, config: ChildConfig) -> None:
        self.channel, self.config = channel, config
        self.printer = Printer(config.output_chars)
        self.caller = ToolCaller(channel, self.printer, config.message_bytes)
        self.ballast: list[bytearray] = [bytearray(BALLAST_BYTES)]
        prelude: Any = importlib.import_module(config.prelude_module)
        self.caller.use_types(prelude.encode, lambda ref: prelude.decode(ref, self.caller))
        self._encode, self._decode = prelude.encode, lambda ref: prelude.decode(ref, self.caller)
        guards = Guards(prelude.READABLE)
        provided = dict(prelude.names(self.caller, config.prelude_config))
        facades = build_facades(guards.builtin_getattr, guards.getitem, guards.allow)
        self.namespace: dict[str, Any] = {
            **provided,
            **guards.namespace(),
            **import_guards(facades, provided),
            "__builtins__": program_builtins(guards, self.printer),
            "__name__": "__main__",
            hidden("__name__"): "__main__",
        }
        self.turn = 0

    def serve(self) -> None:
        """Answers ``run`` frames until there is nothing more to run."""
        while True:
            try:
                meta, raw = self.channel.receive()
            except WireClosedError:
                return
            self._answer(self._run(meta, raw))
            if not meta.get("session"):
                return

    def _answer(self, done: dict[str, Any]) -> None:
        raw = done.pop("raw", [])
        done |= {"t": "done", "o": self.printer.take()}
        self.channel.send_packed(pack(done), raw)

    def _run(self, meta: Mapping[str, Any], raw: bytes) -> dict[str, Any]:
        self.turn += 1
        self.caller.start_turn()
        filename = f"{FILENAME}>" if self.turn == 1 else f"{FILENAME} turn {self.turn}>"
        run = _Run(self, filename, str(meta["code"]), meta.get("entry"))
        try:
            args = decode(meta["args"], raw, self._decode)
            value = run.execute(args)
            if self.printer.exceeded:
                raise OutputLimitError
            return run.succeeded(value)
        except BaseException as error:  # noqa: BLE001 - the boundary of one program
            if isinstance(error, MemoryError):
                self.ballast.clear()
            try:
                return run.failed(error)
            except BaseException as second:  # noqa: BLE001 - a __str__ of the program may fail too
                return run.failed_plainly(error, second)

    def encode_value(self, value: Any, raw: list[memoryview]) -> Any:
        """The value as it goes over the wire."""
        return encode(value, raw, self._encode)


class _Run:
    """One program from source to done frame."""

    def __init__(self, child: Child, filename: str, source: str, entry: str | None) -> None:
        self.child, self.filename, self.source, self.entry = child, filename, source, entry
        self.program: Program | None = None
        self.function: str | None = None

    def execute(self, args: Mapping[str, Any]) -> Any:
        namespace = self.child.namespace
        self.program = compile_program(self.source, self.filename, self.child.config.source_bytes)
        namespace.update({hidden(name): value for name, value in args.items()})
        exec(self.program.code, namespace)  # noqa: S102 - guarded code in a locked process
        if self.entry and self.entry in self.program.defined | self.program.assigned:
            self.function = self.entry
            function = namespace[hidden(self.entry)]
            bound = entries.bind(function, args)
            return function(*bound) if type(bound) is list else function(**bound)  # type: ignore[arg-type]
        for name in entries.ANSWER_NAMES:
            if name in self.program.assigned and name in namespace:
                return namespace[name]
        if self.entry:
            raise _NoAnswerError(
                f"the program defines no {self.entry}() and sets none of: "
                + ", ".join(entries.ANSWER_NAMES)
            )
        return None

    def succeeded(self, value: Any) -> dict[str, Any]:
        raw: list[memoryview] = []
        try:
            packed = self.child.encode_value(value, raw)
            size = len(pack({"v": packed})) + sum(part.nbytes for part in raw)
        except WireError as error:
            return self._failure("return_type", f"the answer cannot be handed back: {error}", None)
        limit = self.child.config.message_bytes
        if size > limit:
            message = f"the answer takes {size} bytes, the limit is {limit}"
            return self._failure("output", message, None)
        done = {"ok": True, "v": packed, "raw": raw}
        if is_empty(value):
            lines = self._feeding(None)
            done["e"] = self.child.caller.empty_calls(lines, [value])
        return done

    def failed(self, error: BaseException) -> dict[str, Any]:
        if isinstance(error, PolicyError):
            return self._failure(error.kind, error.message, error.line)
        frames = _program_frames(error.__traceback__)
        line = frames[-1][1] if frames else self._entry_line()
        frame = next((f for f, _ in reversed(frames) if f.f_code.co_name[0] != "<"), None)
        done = self._failure(*_classify(error), line, frame)
        done["f"]["exception"] = authored(type(error).__name__)
        if isinstance(error, _NoAnswerError | OutputLimitError | Forbidden):
            done["f"]["exception"] = None
        if isinstance(error, ToolError):
            done["f"]["tool"], done["f"]["call_index"] = error.origin
        if self.program is not None:
            self.function = frame.f_code.co_name if frame else None
            values = _values_on_line(self.program, [f for f, _ in frames], line)
            done["e"] = self.child.caller.empty_calls(self._feeding(line), values)
        return done

    def _entry_line(self) -> int | None:
        """Where the entry function is defined: for an error in calling it."""
        if self.program is None or self.function is None:
            return None
        for node in ast.walk(self.program.tree):
            if isinstance(node, ast.FunctionDef) and node.name == self.function:
                return node.lineno
        return None

    def failed_plainly(self, error: BaseException, second: BaseException) -> dict[str, Any]:
        """When describing the failure failed too."""
        kind = "memory" if isinstance(error, MemoryError) else "runtime"
        if isinstance(error, RecursionError):
            kind = "recursion"
        message = f"{type(error).__name__}, and describing it failed with {type(second).__name__}"
        return {"ok": False, "f": {"kind": kind, "message": message}}

    def _feeding(self, line: int | None) -> frozenset[int]:
        if self.program is None:
            return frozenset()
        function = authored(self.function) if self.function else None
        return feeding_lines(self.program.tree, line, function)

    def _failure(
        self, kind: str, message: str, line: int | None, frame: FrameType | None = None
    ) -> dict[str, Any]:
        name = frame.f_code.co_name if frame is not None else None
        failure = {
            "kind": kind,
            "message": authored(message)[:_MAX_MESSAGE].encode("utf-8", "replace").decode(),
            "line": line,
            "function": authored(name) if name else None,
        }
        return {"ok": False, "f": failure}


class _NoAnswerError(Exception):
    """The program ended without an answer."""


def _classify(error: BaseException) -> tuple[str, str]:
    """(failure kind, message) of an exception that a program did not catch."""
    if isinstance(error, MemoryError):
        return "memory", "the program needs more memory than its limit"
    if isinstance(error, RecursionError):
        return "recursion", "the program recurses too deeply"
    if isinstance(error, OutputLimitError):
        return "output", "the program prints more than its limit"
    if isinstance(error, _NoAnswerError):
        return "return_type", str(error)
    if isinstance(error, ToolError):
        return "tool", str(error)
    if isinstance(error, Forbidden):
        return "forbidden", str(error)
    if type(error) is NameError and is_hidden_builtin(authored(error.name or "")):
        return "forbidden", f"{authored(error.name or '')} is not available to programs"
    return "runtime", str(error)


def _program_frames(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    """The program's frames on the way of an exception with their lines, outermost first."""
    frames = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(FILENAME):
            frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return frames


def _values_on_line(program: Program, frames: list[FrameType], line: int | None) -> list[Any]:
    """Objects of the variables that are named on the failing line."""
    if not frames or line is None:
        return []
    scopes = [frame.f_locals for frame in reversed(frames[-2:])] + [frames[-1].f_globals]
    found = []
    for name in map(hidden, program.names_on(line)):
        scope = next((scope for scope in scopes if name in scope), None)
        if scope is not None:
            found.append(scope[name])
    return found


def run_child(
    sock: socket.socket, trace_fd: int, lockdown: Lockdown, config: ChildConfig, zygote: int
) -> NoReturn:
    """What a forked child does, from locking itself to its end; never returns."""
    code = 1
    try:
        os.dup2(sock.fileno(), PROGRAM_FD)
        os.dup2(trace_fd, TRACE_FD)
        sock.detach()
        sys.stdin = sys.stdout = sys.stderr = None  # type: ignore[assignment]
        channel = Channel(
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, PROGRAM_FD),
            _FROM_PARENT,
            _FROM_PARENT,
        )
        child = Child(channel, config)
        faulthandler.register(signal.SIGUSR1, file=TRACE_FD, all_threads=False)
        layers = lockdown.apply(zygote)
        gc.freeze()
        channel.send({"t": "ready", "layers": [list(layer) for layer in layers]})
        child.serve()
        code = 0
    finally:
        os._exit(code)
