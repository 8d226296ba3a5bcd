"""The process that runs one program or one session and then ends.

The zygote makes a :class:`ChildRuntime` once, with the names of the prelude and its guards, and
forks. :func:`run_child` locks the fork and serves the parent: for each ``run`` frame, a
:class:`_Run` compiles the program under the policy, executes it, finds its answer and sends a
``done`` frame, with the value and the lines that fed it, or with the failure and the empty calls
behind it.
"""

from __future__ import annotations

import ast
import builtins
import faulthandler
import gc
import importlib
import mmap
import os
import signal
import socket
import sys
from collections import ChainMap
from collections.abc import Iterable, Mapping
from traceback import walk_tb
from types import TracebackType
from typing import Any, NoReturn

from viper.sandbox import entry as entries
from viper.sandbox.arrays import HAS_NUMPY
from viper.sandbox.backward_slice import feeding_lines
from viper.sandbox.calls import FILENAME, ROUTINES, ToolCaller, ToolError, Variables, is_empty
from viper.sandbox.classes import Forbidden
from viper.sandbox.guards import Guards
from viper.sandbox.interface import Limits, Prelude, Source
from viper.sandbox.lockdown import BALLAST_BYTES, PROGRAM_FD, TRACE_FD, Applied, Lockdown
from viper.sandbox.modules import build_facades, import_guards, wide_numpy
from viper.sandbox.names import BUILTIN_NAMES, OutputLimitError, Printer, program_builtins
from viper.sandbox.policy import SHOWN, PolicyError, Program, compile_program
from viper.sandbox.prepass import authored, hidden
from viper.sandbox.wire import Channel, Raw, WireClosedError, WireError, pack, unpack

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


class ChildRuntime:
    """Runs the programs that the parent sends over one channel.

    The zygote creates it once, before any fork, so each child starts with its own complete copy.
    """

    def __init__(self, prelude: Prelude, limits: Limits) -> None:
        self.source_bytes = int(limits.source_kb * 1024)
        self.message_bytes = int(limits.result_kb * 1024)
        self.printer = Printer(int(limits.output_kb * 1024))
        module: Any = importlib.import_module(prelude.module)
        self.caller = ToolCaller(self.printer, self.message_bytes, module)
        self._ballast = mmap.mmap(-1, BALLAST_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        provided = dict(module.names(self.caller, prelude.config))
        self.guards = guards = Guards(module.READABLE, provided.values())
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
        self._add([source for source in prelude.sources if source.trusted])
        self.untrusted = [source for source in prelude.sources if not source.trusted]
        self.turn = 0
        self._compiled: tuple[tuple[str, str, bool], Program] | None = None

    def _add(self, sources: Iterable[Source]) -> None:
        """Make the functions of sources callable by programs and by each other."""
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

    def add_untrusted(self) -> None:
        """Run the sources of strangers, in the locked child and the time of its first program."""
        sources, self.untrusted = self.untrusted, []
        self._add(sources)

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
            unpack(pack({"v": self.caller.encode(namespace["answer"], [])}))

    def serve(self, channel: Channel, layers: Applied) -> None:
        """Report the layers, then answer ``run`` frames until no further run is possible."""
        self.caller.channel = channel
        self.printer.flush = lambda: channel.send({"t": "text", "o": self.printer.take()})
        channel.send({"t": "ready", "layers": [list(layer) for layer in layers]})
        while True:
            try:
                meta, raw = channel.receive()
            except WireClosedError:
                return
            done = self._run_apart(meta, raw) if meta.get("apart") else self._run(meta, raw)
            parts = done.pop("raw", [])
            channel.send(done | {"t": "done", "o": self.printer.take()}, parts)
            if not meta.get("session"):
                return

    def compiled(self, source: str, filename: str, shows: bool) -> Program:
        """Return a compiled program; one that runs again is compiled once."""
        asked = (source, filename, shows)
        if self._compiled is None or self._compiled[0] != asked:
            program = compile_program(source, filename, self.source_bytes, shows=shows)
            self._compiled = asked, program
        return self._compiled[1]

    def _run_apart(self, meta: Mapping[str, Any], raw: Raw) -> dict[str, Any]:
        """Run a program with names of its own, and forget them before the reply.

        What is left to do when they are gone (``finally`` of a generator) is done then, in the time
        and with the calls of this run.
        """
        whole, self.namespace, self.turn = self.namespace, dict(self.namespace), 0
        self.guards.allowed.clear()
        self.caller.variables = Variables(self.namespace)
        try:
            return self._run(meta, raw)
        finally:
            self.namespace.clear()
            self.caller.start_turn()
            self.guards.forget()
            gc.collect()
            self.namespace = whole

    def _run(self, meta: Mapping[str, Any], raw: Raw) -> dict[str, Any]:
        self.turn += 1
        self.caller.start_turn()
        self.printer.start_turn()
        filename = f"{FILENAME}>" if self.turn == 1 else f"{FILENAME} turn {self.turn}>"
        run = _Run(self, filename, meta)
        try:
            value = run.execute(self.caller.decode(meta["args"], raw))
            if self.printer.exceeded:
                raise OutputLimitError
            return run.success_frame(value)
        except BaseException as error:  # noqa: BLE001 - the boundary of one program
            if isinstance(error, MemoryError):
                self._ballast.close()
            try:
                return run.failure_frame(error)
            except BaseException as second:  # noqa: BLE001 - a __str__ of the program may fail too
                kind = "memory" if isinstance(error, MemoryError) else "runtime"
                if isinstance(error, RecursionError):
                    kind = "recursion"
                first, again = type(error).__name__, type(second).__name__
                message = f"{first}, and describing it failed with {again}"
                return {"ok": False, "f": {"kind": kind, "message": message}}


class _Run:
    """One program, from its source to the done frame."""

    def __init__(self, child: ChildRuntime, filename: str, meta: Mapping[str, Any]) -> None:
        self.child, self.filename, self.source = child, filename, str(meta["code"])
        self.entry: str | None = meta.get("entry")
        self.shows = bool(meta.get("shows"))
        self.program: Program | None = None
        self.function: str | None = None

    def execute(self, args: Mapping[str, Any]) -> Any:
        namespace = self.child.namespace
        self.child.add_untrusted()
        self.program = self.child.compiled(self.source, self.filename, self.shows)
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
            others = ", ".join(map(authored, sorted(self.program.functions)))
            raise _NoAnswerError(
                f"the program defines no {self.entry}() outside of classes and sets none of: "
                + ", ".join(entries.ANSWER_NAMES)
                + (f"; rename the main one ({others}) to {self.entry}" if others else "")
            )
        return None

    def success_frame(self, value: Any) -> dict[str, Any]:
        raw: list[memoryview] = []
        try:
            packed = self.child.caller.encode(value, raw)
            size = len(pack({"v": packed})) + sum(part.nbytes for part in raw)
        except WireError as error:
            message = f"the answer cannot be handed back: {error}; {_ANSWERS}"
            return self._failure("return_type", message)
        if size > self.child.message_bytes:
            message = f"the answer takes {size} bytes, the limit is {self.child.message_bytes}"
            return self._failure("output", message)
        feeding = self._feeding(None)
        lines = feeding or range(1, self.source.count("\n") + 2)
        done = {"ok": True, "v": packed, "raw": raw, "l": sorted(lines)}
        if is_empty(value):
            done["e"] = self.child.caller.empty_calls(feeding, [value])
        return done

    def failure_frame(self, error: BaseException) -> dict[str, Any]:
        if isinstance(error, PolicyError):
            return self._failure(error.kind, error.message, error.line)
        frames = [
            (frame, line)  # of the program, outermost first
            for frame, line in walk_tb(error.__traceback__)
            if frame.f_code.co_filename.startswith(FILENAME)
        ]
        line = frames[-1][1] if frames else None
        if not frames and self.program and self.function:  # an error in calling the function
            for node in ast.walk(self.program.tree):
                if isinstance(node, ast.FunctionDef) and node.name == self.function:
                    line = node.lineno
                    break
        names = (frame.f_code.co_name for frame, _ in reversed(frames))
        function = next((name for name in names if name[0] != "<"), None)
        kind, message = _classify(error)
        done = self._failure(kind, message + _inside_routine(error.__traceback__), line, function)
        done["f"]["exception"] = authored(type(error).__name__)
        if isinstance(error, _NoAnswerError | OutputLimitError | Forbidden):
            done["f"]["exception"] = None
        elif isinstance(error, AttributeError | NameError) and type(error.name) is str:
            done["f"]["name"] = _sendable(authored(error.name)[:_MAX_MESSAGE])
            if isinstance(error, AttributeError):
                done["f"]["owner"] = authored(type(error.obj).__name__)
        if isinstance(error, ToolError):
            tool, index = error.origin
            # a program can raise ToolError with any arguments
            if type(tool) is str and type(index) is int:
                done["f"]["tool"] = _sendable(tool[:_MAX_MESSAGE])
                done["f"]["call_index"] = index
        if self.program is not None:
            self.function = function
            values = []  # of the variables that are named on the failing line
            if frames and line is not None:
                scopes = [frame.f_locals for frame, _ in reversed(frames[-2:])]
                variables = ChainMap(*scopes, frames[-1][0].f_globals)
                on_line = map(hidden, self.program.names_on(line))
                values = [variables[name] for name in on_line if name in variables]
            done["e"] = self.child.caller.empty_calls(self._feeding(line), values)
        return done

    def _feeding(self, line: int | None) -> frozenset[int]:
        if self.program is None:
            return frozenset()
        return feeding_lines(self.program.tree, line, authored(self.function or ""))

    def _failure(
        self, kind: str, message: str, line: int | None = None, function: str | None = None
    ) -> dict[str, Any]:
        failure = {
            "kind": kind,
            "message": _sendable(authored(message)[:_MAX_MESSAGE]),
            "line": line,
            "function": authored(function) if function else None,
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
    if type(error) is NameError and (name := authored(error.name or "")) in dir(builtins):
        functions = ", ".join(sorted(name for name in BUILTIN_NAMES if name.islower()))
        return "forbidden", f"{name} is not available to programs; they have {functions}"
    return "runtime", str(error)


class SourceError(Exception):
    """A source that cannot be run under the policy."""


def _inside_routine(trace: TracebackType | None, module: bool = False) -> str:
    """Return the place inside a source's function where an exception arose, for its author."""
    where = ""
    for frame, line in walk_tb(trace):
        code = frame.f_code
        if code.co_filename.startswith(ROUTINES):
            name = code.co_filename.removeprefix(ROUTINES).rstrip(">")
            inside = "" if module else f"inside {authored(code.co_name)}, "
            where = f" ({inside}{name} line {line})"
        elif code.co_filename.startswith(FILENAME):
            where = ""
    return where


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
        child.serve(Channel(wire, _FROM_PARENT, _FROM_PARENT, patience_s=None), layers)
        code = 0
    finally:
        os._exit(code)
