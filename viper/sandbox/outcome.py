"""Results of running a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from viper.schema import Failure


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
