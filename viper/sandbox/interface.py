"""What a caller gives to the sandbox and gets from it.

A caller plugs in two parts, a :class:`ToolClient` in its own process and a :class:`Prelude` in the
child, and sets :class:`Limits`. Each run returns an :class:`Outcome`, with a :class:`Call` for each
call of a tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

from viper.errors import ToolError, UsageError
from viper.schema import Failure


@dataclass(frozen=True)
class Limits:
    """Budgets of one program, or of one turn of a session.

    Attributes:
        time_s: wall time of the program in seconds; time spent inside tools is not counted.
        memory_mb: memory in MiB that a program may add to what its process starts with.
        calls: greatest number of tool calls.
        output_kb: greatest length of the printed text in KiB.
        source_kb: greatest length of the source in KiB.
        result_kb: size in KiB of one message to the parent (a result, the arguments of a call);
            all messages of a program together may have eight times this size.
    """

    # Programs compute boxes and words within milliseconds; ten seconds only end those that loop.
    time_s: float = 10.0
    # Copies of a few pictures and NumPy's work on them fit; a bomb does not hurt the machine.
    memory_mb: int = 512
    # Above what a program asks that looks at every object of a crowded picture.
    calls: int = 500
    # Text is read by a model or a person: more than 64 KiB neither reads.
    output_kb: int = 64
    source_kb: int = 64
    # A picture of 400 x 400 pixels as an array.
    result_kb: int = 512

    def __post_init__(self) -> None:
        for budget in fields(self):
            value = getattr(self, budget.name)
            if not value > 0:
                raise UsageError(f"limit {budget.name} is {value!r}; it must be above 0")


@runtime_checkable
class ToolClient(Protocol):
    """Answers the calls of a program, in the parent process.

    Arguments and results are plain values (None, bool, int, float, str, bytes, list, tuple, dict,
    set, numpy arrays) and :class:`viper.sandbox.wire.Ref` s. The arguments come from an untrusted
    program: check names, counts, types and handles before using them.

    A client may have a method ``check_running()``. It is called now and then while a program that
    can be cancelled computes; an error that it raises ends the program and leaves the sandbox.
    """

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        """Return the result of one call.

        Args:
            name: name of the tool.
            line: line of the program that made the call, for the trace.

        Raises:
            viper.errors.ToolError: the call is refused or failed; the program sees an
                exception at that line. Any other exception ends the run and reaches
                the caller of ``Sandbox.run``.
        """


class NoTools:
    """A tool client without tools: it refuses every call."""

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        raise ToolError(f"there is no tool {name!r}: this sandbox was given none")


@dataclass(frozen=True)
class Source:
    """Source text of functions that programs may call; it obeys the same rules as a program.

    The text runs in its own namespace with the names that programs see. A program cannot change
    the names that its functions look up.

    Attributes:
        name: name for messages, such as the name of a file.
        text: Python as programs may write it.
        exports: the functions that programs see.
        trusted: run the text once, before any child is locked. Otherwise each child runs it after
            it is locked, in the time of its first program.
    """

    name: str
    text: str
    exports: tuple[str, ...]
    trusted: bool = True


@dataclass(frozen=True)
class Prelude:
    """The names that programs see, provided by a trusted module inside the child.

    ``module`` is imported once, before any child exists, and must stay light. It defines

    - ``names(call, config) -> dict[str, object]``: the names. ``call(name, *args,
      **kwargs)`` asks the parent and blocks; ``call.variables`` maps the program's outermost
      variables by name; ``call.arrays`` maps the read-only arrays that the parent shares.
    - ``READABLE: Mapping[type, frozenset[str]]``: attributes that programs may read,
      by exact type; everything else is refused.
    - ``encode(obj) -> Ref | None`` and ``decode(ref, call) -> object``: how its value types
      cross the wire.

    ``sources`` add functions that obey the policy themselves.
    """

    module: str
    config: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()

    @classmethod
    def functions(cls, *names: str) -> Prelude:
        """Return a prelude in which each name is a function that calls the tool of that name."""
        return cls("viper.sandbox.plain_prelude", {"functions": list(names)})


@dataclass(frozen=True)
class Call:
    """One tool call as the parent saw it; values are plain, patches are ``Ref`` s.

    Attributes:
        index: position from 0 in the run (in a session: in the turn).
        line: line of the program that made the call, from 1.
        seconds: time the tool took.
        error: message of the ToolError, None when the call succeeded.
    """

    index: int
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any
    line: int | None
    seconds: float
    error: str | None = None


@dataclass(frozen=True)
class EmptyCall:
    """A tool call that returned an empty list, an empty text, None or False.

    ``reached`` is True if this result flowed into the line that failed, or into the empty value
    that was returned.
    """

    index: int
    reached: bool


@dataclass(frozen=True)
class Layer:
    """One protection layer: whether it holds on this machine, and its effect or the reason it
    fails.
    """

    name: str
    holds: bool
    detail: str

    @property
    def without(self) -> str:
        """Return the risk when the layer does not hold."""
        return _WITHOUT.get(self.name, "one layer fewer")


_WITHOUT = {
    "policy": "a program reaches the interpreter of its process and stops at the layers below",
    "process": "programs would share state with each other and with you",
    "descriptors": "a descriptor left open would be a way out",
    "rlimits": "a program can use up memory and processor time",
    "uid": "programs have the rights of the user who runs this",
    "pdeathsig": "processes may outlive a killed parent",
    "dumpable": "processes of the same user could look into each other",
    "no_new_privs": "a set-user-id program would give rights",
    "landlock": "seccomp alone keeps files, sockets and signals away",
    "seccomp": "every system call is in reach: strict refuses to run, --sandbox=weak goes on",
}


@dataclass(frozen=True)
class Outcome:
    """The result of one program, or of one turn of a session.

    Attributes:
        ok: the program ended by itself without an error.
        value: its answer (plain values, tuples, numpy arrays, ``Ref`` s); None on failure.
        stdout: printed text; on failure, the text received so far.
        failure: the reason why there is no value; None when ``ok``.
        calls: all tool calls in order.
        seconds: wall time without the time spent in tools.
        tool_seconds: time spent in tools.
        empty_calls: calls with an empty result, filled when the program failed or
            answered None, False, an empty text or an empty container.
        answer_lines: lines of the program whose values may have reached its answer, conditions
            included; empty on failure.
    """

    ok: bool
    value: Any = None
    stdout: str = ""
    failure: Failure | None = None
    calls: tuple[Call, ...] = ()
    seconds: float = 0.0
    tool_seconds: float = 0.0
    empty_calls: tuple[EmptyCall, ...] = field(default=())
    answer_lines: frozenset[int] = frozenset()


def describe_failure(failure: Failure) -> str:
    """Describe the failure in one to three lines, for a person or for the program writer."""
    where = ""
    if failure.line is not None:
        where = f" at line {failure.line}"
        if failure.function:
            where += f" in {failure.function}"
    what = f"{failure.exception}: {failure.message}" if failure.exception else failure.message
    text = f"{failure.kind}{where}: {what}"
    if failure.source_line:
        text += f"\n    {failure.source_line.strip()}"
    if failure.tool:
        text += f"\n(tool: {failure.tool})"
    return text
