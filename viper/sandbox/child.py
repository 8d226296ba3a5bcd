"""The process that runs one program or one session and then ends.

The zygote makes a :class:`ChildRuntime` once, with the names of the prelude and its guards, and
forks. :func:`run_child` locks the fork and serves the parent: for each ``run`` frame, a
:class:`_Run` compiles the program under the policy, executes it, finds its answer and sends a
``done`` frame, with the value and the lines that fed it, or with the failure and the empty calls
behind it.
"""

from __future__ import annotations

import ast
import faulthandler
import importlib
import mmap
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, NoReturn

from viper.sandbox import entry as entries
from viper.sandbox.arrays import HAS_NUMPY
from viper.sandbox.backward_slice import feeding_lines
from viper.sandbox.calls import FILENAME, ROUTINES, ToolCaller, ToolError, Variables, is_empty
from viper.sandbox.classes import Forbidden
from viper.sandbox.guards import Guards, is_hidden_builtin
from viper.sandbox.interface import Source
from viper.sandbox.lockdown import BALLAST_BYTES, PROGRAM_FD, TRACE_FD, Applied, Lockdown
from viper.sandbox.modules import build_facades, import_guards, wide_numpy
from viper.sandbox.names import BUILTIN_NAMES, OutputLimitError, Printer, program_builtins
from viper.sandbox.policy import SHOWN, PolicyError, Program, compile_program
from viper.sandbox.prepass import authored, hidden
from viper.sandbox.wire import (
    Channel,
    Raw,
    WireClosedError,
    WireError,
    decode,
    encode,
    pack,
    unpack,
)

# Characters of a message about a failure: it goes into the prompt of the next trial.
_MAX_MESSAGE = 600
_ANSWERS = "it may hold numbers, texts, None, arrays, and lists, tuples, sets and dicts of these"
# Greatest size of a source: files of routines hold many functions, a program (64 KiB) few.
_SOURCE_BYTES = 256 * 1024
# Touches what most programs use: a function, a loop, a sort, text and an answer of several parts.
_WARM_UP = """
import math
def execute_command(image, query=None):
    values = [x * 2 for x in range(3)]
    values.sort(key=lambda v: -v)
    total, box = 0, {"left": 1.5}
    for i, value in enumerate(values):
        total += value
        box["left"] += i
    if len(values) == 0 or not query is None:
        return f"{total}"
    return str(values[0]) + "{:.1f}".format(math.sqrt(box["left"])), ["a".upper(), (1, None)]
answer = execute_command(None)
"""

# Python specialises bytecode after some runs of the same code; the guards run specialised then.
WARM_ROUNDS = 20

# The child trusts the parent, whose answers (arrays of pixels) may be large; the bound only lets a
# broken header fail at once.
_FROM_PARENT = 1 << 30


def load_late_libraries() -> None:
    """Load C libraries now that would load on first use, because a locked child can open no file.

    numpy inspects the call stack when it does arithmetic on arrays above 256 KiB, to decide whether
    it may reuse a temporary array. That loads the library that walks stacks. Some functions of
    numpy import masked arrays when they are first called. The parser needs the names of characters
    for identifiers and texts beyond ASCII.
    """
    import unicodedata  # noqa: F401

    if not HAS_NUMPY:
        return
    import numpy as np
    import numpy.ma

    large = np.ones(1 << 16)
    large = large * 2.0 + 1.0
    np.linalg.eigvalsh(large[:9].reshape(3, 3))


@dataclass(frozen=True)
class ChildConfig:
    """Settings that the parent sends to the zygote at boot and that every child shares."""

    prelude_module: str
    prelude_config: Mapping[str, Any]
    source_bytes: int
    output_chars: int
    message_bytes: int
    sources: tuple[Source, ...] = ()


class ChildRuntime:
    """Runs the programs that the parent sends over one channel.

    The zygote creates it once, before any fork, so each child starts with its own complete copy.
    """

    channel: Channel

    def __init__(self, config: ChildConfig) -> None:
        self.config = config
        self.printer = Printer(config.output_chars)
        self.caller = ToolCaller(self.printer, config.message_bytes)
        self._ballast = mmap.mmap(-1, BALLAST_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        prelude: Any = importlib.import_module(config.prelude_module)
        self.caller.use_types(prelude.encode, lambda ref: prelude.decode(ref, self.caller))
        self._encode, self._decode = prelude.encode, lambda ref: prelude.decode(ref, self.caller)
        guards = Guards(prelude.READABLE)
        provided = dict(prelude.names(self.caller, config.prelude_config))
        guards.name_types(provided.values())
        facades = build_facades(guards.builtin_getattr, guards.getitem, guards.allow)
        self._wide_imports = import_guards({**facades, **wide_numpy()}, provided)
        self.namespace: dict[str, Any] = {
            **provided,
            **guards.namespace(),
            **import_guards(facades, provided),
            "__builtins__": program_builtins(guards, self.printer),
            "__name__": "__main__",
            hidden("__name__"): "__main__",
        }
        self.caller.variables = Variables(self.namespace)
        self._add_sources(config.sources)
        self.turn = 0

    def _add_sources(self, sources: Sequence[Source]) -> None:
        """Make the functions of the sources callable by programs and by each other."""
        exported: dict[str, Any] = {}
        spaces = []
        for source in sources:
            own = dict(self.namespace)
            program = compile_program(source.text, f"{ROUTINES}{source.name}>", _SOURCE_BYTES)
            try:
                exec(program.code, own)  # noqa: S102 - guarded, and given by the caller
            except Exception as error:
                name = f"{type(error).__name__}: {authored(str(error))}"
                where = _inside_routine(error.__traceback__, module=True)
                raise SourceError(f"{name}{where}") from error
            exported |= {name: own[hidden(name)] for name in source.exports}
            spaces.append((own, program.assigned | program.functions))
        for own, defined in spaces:
            own.update({name: f for name, f in exported.items() if name not in defined})
        self.namespace.update(exported)

    def share(self, arrays: Mapping[str, Any]) -> None:
        """Give the program read-only arrays, and the larger part of numpy to work on them.

        To be called in the forked child, before it locks itself.
        """
        self.caller.arrays = arrays
        self.namespace.update(self._wide_imports)

    def warm_up(self, rounds: int = 1) -> None:
        """Run a small trusted program, so that code and memory are in place.

        Most of the time of a first run after a fork is page faults. A child takes them while it
        waits in the pool.
        """
        for _ in range(rounds):
            program = compile_program(_WARM_UP, "<warm-up>")
            namespace = dict(self.namespace)
            exec(program.code, namespace)  # noqa: S102 - our own text
            unpack(pack({"v": self.encode_value(namespace["answer"], [])}))

    def connect(self, channel: Channel) -> None:
        """Set the channel to the parent, in the forked child."""
        self.channel = channel
        self.caller.connect(channel)
        self.printer.flush = self._send_text

    def serve(self, layers: Applied) -> None:
        """Report the layers, then answer ``run`` frames until no further run is possible."""
        self.channel.send({"t": "ready", "layers": [list(layer) for layer in layers]})
        while True:
            try:
                meta, raw = self.channel.receive()
            except WireClosedError:
                return
            self._answer(self._run(meta, raw))
            if not meta.get("session"):
                return

    def _send_text(self) -> None:
        self.channel.send({"t": "text", "o": self.printer.take()})

    def _answer(self, done: dict[str, Any]) -> None:
        raw = done.pop("raw", [])
        done |= {"t": "done", "o": self.printer.take()}
        self.channel.send_packed(pack(done), raw)

    def _run(self, meta: Mapping[str, Any], raw: Raw) -> dict[str, Any]:
        self.turn += 1
        self.caller.start_turn()
        self.printer.start_turn()
        filename = f"{FILENAME}>" if self.turn == 1 else f"{FILENAME} turn {self.turn}>"
        run = _Run(self, filename, str(meta["code"]), meta.get("entry"), bool(meta.get("shows")))
        try:
            args = decode(meta["args"], raw, self._decode)
            value = run.execute(args)
            if self.printer.exceeded:
                raise OutputLimitError
            return run.success_frame(value)
        except BaseException as error:  # noqa: BLE001 - the boundary of one program
            if isinstance(error, MemoryError):
                self._ballast.close()
            try:
                return run.failure_frame(error)
            except BaseException as second:  # noqa: BLE001 - a __str__ of the program may fail too
                return run.minimal_failure_frame(error, second)

    def encode_value(self, value: Any, raw: list[memoryview]) -> Any:
        """Return the value in the form of the wire protocol."""
        return encode(value, raw, self._encode)


class _Run:
    """One program, from its source to the done frame."""

    def __init__(
        self, child: ChildRuntime, filename: str, source: str, entry: str | None, shows: bool
    ) -> None:
        self.child, self.filename, self.source, self.entry = child, filename, source, entry
        self.shows = shows
        self.program: Program | None = None
        self.function: str | None = None

    def execute(self, args: Mapping[str, Any]) -> Any:
        namespace = self.child.namespace
        self.program = compile_program(
            self.source, self.filename, self.child.config.source_bytes, shows=self.shows
        )
        namespace.update({hidden(name): value for name, value in args.items()})
        namespace.pop(hidden(SHOWN), None)
        exec(self.program.code, namespace)  # noqa: S102 - guarded code in a locked process
        if self.shows:
            return namespace.get(hidden(SHOWN))
        if self.entry and self.program.defines(self.entry):
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

    def success_frame(self, value: Any) -> dict[str, Any]:
        raw: list[memoryview] = []
        try:
            packed = self.child.encode_value(value, raw)
            size = len(pack({"v": packed})) + sum(part.nbytes for part in raw)
        except WireError as error:
            message = f"the answer cannot be handed back: {error}; {_ANSWERS}"
            return self._failure("return_type", message, None)
        limit = self.child.config.message_bytes
        if size > limit:
            message = f"the answer takes {size} bytes, the limit is {limit}"
            return self._failure("output", message, None)
        feeding = self._feeding(None)
        lines = feeding or range(1, self.source.count("\n") + 2)
        done = {"ok": True, "v": packed, "raw": raw, "l": sorted(lines)}
        if is_empty(value):
            done["e"] = self.child.caller.empty_calls(feeding, [value])
        return done

    def failure_frame(self, error: BaseException) -> dict[str, Any]:
        if isinstance(error, PolicyError):
            return self._failure(error.kind, error.message, error.line)
        frames = _program_frames(error.__traceback__)
        line = frames[-1][1] if frames else self._entry_line()
        frame = next((f for f, _ in reversed(frames) if f.f_code.co_name[0] != "<"), None)
        kind, message = _classify(error)
        done = self._failure(kind, message + _inside_routine(error.__traceback__), line, frame)
        done["f"]["exception"] = authored(type(error).__name__)
        if isinstance(error, _NoAnswerError | OutputLimitError | Forbidden):
            done["f"]["exception"] = None
        if isinstance(error, ToolError):
            tool, index = error.origin
            if (
                type(tool) is str and type(index) is int
            ):  # a program can raise ToolError with any arguments
                done["f"]["tool"] = _sendable(tool[:_MAX_MESSAGE])
                done["f"]["call_index"] = index
        if self.program is not None:
            self.function = frame.f_code.co_name if frame else None
            values = _values_on_line(self.program, [f for f, _ in frames], line)
            done["e"] = self.child.caller.empty_calls(self._feeding(line), values)
        return done

    def _entry_line(self) -> int | None:
        """Return the line that defines the entry function, for errors in calling it."""
        if self.program is None or self.function is None:
            return None
        for node in ast.walk(self.program.tree):
            if isinstance(node, ast.FunctionDef) and node.name == self.function:
                return node.lineno
        return None

    def minimal_failure_frame(self, error: BaseException, second: BaseException) -> dict[str, Any]:
        """Return a minimal failure, for when describing the failure failed too."""
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
            "message": _sendable(authored(message)[:_MAX_MESSAGE]),
            "line": line,
            "function": authored(name) if name else None,
        }
        return {"ok": False, "f": failure}


def _sendable(text: str) -> str:
    """Return the text without lone surrogates, which msgpack cannot carry."""
    return text.encode("utf-8", "replace").decode()


class _NoAnswerError(Exception):
    """The program ended without an answer."""


def _classify(error: BaseException) -> tuple[str, str]:
    """Return (failure kind, message) for an exception that a program did not catch."""
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
        name = authored(error.name or "")
        functions = ", ".join(sorted(name for name in BUILTIN_NAMES if name.islower()))
        return "forbidden", f"{name} is not available to programs; they have {functions}"
    return "runtime", str(error)


def _program_frames(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    """Return the program's frames of a traceback with their lines, outermost first."""
    frames = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(FILENAME):
            frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return frames


class SourceError(Exception):
    """A source that cannot be run under the policy."""


def _inside_routine(trace: TracebackType | None, module: bool = False) -> str:
    """Return the place inside a source's function where an exception arose, for its author."""
    where = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(ROUTINES):
            name = code.co_filename.removeprefix(ROUTINES).rstrip(">")
            inside = "" if module else f"inside {authored(code.co_name)}, "
            where = f" ({inside}{name} line {trace.tb_lineno})"
        elif code.co_filename.startswith(FILENAME):
            where = ""
        trace = trace.tb_next
    return where


def _values_on_line(program: Program, frames: list[FrameType], line: int | None) -> list[Any]:
    """Return the values of the variables that are named on the failing line."""
    if not frames or line is None:
        return []
    scopes = [frame.f_locals for frame in reversed(frames[-2:])] + [frames[-1].f_globals]
    values = []
    for name in map(hidden, program.names_on(line)):
        scope = next((scope for scope in scopes if name in scope), None)
        if scope is not None:
            values.append(scope[name])
    return values


def run_child(
    child: ChildRuntime, sock: socket.socket, trace_fd: int, lockdown: Lockdown, zygote_pid: int
) -> NoReturn:
    """Lock the forked child, serve its programs and end the process; never returns."""
    code = 1
    try:
        os.dup2(sock.fileno(), PROGRAM_FD)
        os.dup2(trace_fd, TRACE_FD)
        sys.stdin = sys.stdout = sys.stderr = None  # type: ignore[assignment]
        wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, PROGRAM_FD)
        faulthandler.register(signal.SIGUSR1, file=TRACE_FD, all_threads=False)
        layers = lockdown.apply(zygote_pid)
        child.warm_up()
        child.connect(Channel(wire, _FROM_PARENT, _FROM_PARENT, patience_s=None))
        child.serve(layers)
        code = 0
    finally:
        os._exit(code)
