"""Tool calls of a program, on the side of the child process.

:class:`ToolCaller` sends a call with the program's line, waits for the reply and keeps the empty
results: after a failure, :meth:`ToolCaller.empty_calls` tells which of them flowed into it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType, MappingProxyType
from typing import Any

from viper.sandbox.names import Printer
from viper.sandbox.prepass import PREFIX, hidden
from viper.sandbox.wire import Channel, Raw, WireError, decode, encode, pack

# Start of a program's file name; turns of a session are numbered.
FILENAME = "<program"

# Start of a source's file name.
ROUTINES = "<routines "


class ToolError(Exception):
    """A tool refused the call or failed. Programs may catch it."""

    def __init__(self, message: str, tool: str, index: int) -> None:
        super().__init__(message)
        self._origin = tool, index

    @property
    def origin(self) -> tuple[str, int]:
        """Return (tool, call index).

        On the class, so that the guard, which never looks into an object, knows it and refuses it.
        """
        return self._origin


class Variables(Mapping[str, Any]):
    """Read-only mapping of a program's outermost variables, by the names its author gave them.

    It includes the names that a prelude provides. It excludes guards and Python's own names, which
    begin with an underscore; the author's names with a leading underscore are stored under another
    name.
    """

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def __getitem__(self, name: str) -> Any:
        if type(name) is not str or name.startswith(PREFIX):
            raise KeyError(name)
        return self._namespace[hidden(name)]

    def __iter__(self) -> Iterator[str]:
        for name in self._namespace:
            if name.startswith(PREFIX):
                yield name.removeprefix(PREFIX)
            elif not name.startswith("_"):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


class ToolCaller:
    """The ``call(name, *args, **kwargs)`` of a prelude: asks the parent and waits for its reply.

    Attributes:
        variables: the program's variables, for the functions of the prelude.
        arrays: read-only arrays that the parent shares with this process.
        channel: to the parent; set in the forked child.
    """

    variables: Mapping[str, Any] = Variables({})
    arrays: Mapping[str, Any] = MappingProxyType({})
    channel: Channel

    def __init__(self, printer: Printer, max_message: int, prelude: Any) -> None:
        self._printer, self._max_message, self._prelude = printer, max_message, prelude
        self.start_turn()

    def encode(self, value: Any, raw: list[memoryview]) -> Any:
        """Return a value in the form of the wire, with the prelude's types as references."""
        return encode(value, raw, self._prelude.encode)

    def decode(self, data: Any, raw: Raw) -> Any:
        """Return the value that came over the wire."""
        return decode(data, raw, lambda ref: self._prelude.decode(ref, self))

    def start_turn(self) -> None:
        """Forget the calls of the previous turn."""
        self._count = 0
        self._empty: list[tuple[int, int | None, Any]] = []

    def __call__(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not frame.f_code.co_filename.startswith(FILENAME):
            frame = frame.f_back
        line = frame.f_lineno if frame is not None else None
        raw: list[memoryview] = []
        try:
            meta = {
                "t": "call",
                "n": name,
                "a": [self.encode(arg, raw) for arg in args],
                "k": [[key, self.encode(arg, raw)] for key, arg in kwargs.items()],
                "l": line,
            }
            packed = pack(meta)
            size = len(packed) + sum(part.nbytes for part in raw)
            if size > self._max_message:
                most = self._max_message
                raise WireError(f"its arguments take {size} bytes, the limit is {most}")
        except WireError as error:
            raise TypeError(f"{name}: {error}") from None
        index, self._count = self._count, self._count + 1
        printed = self._printer.take()
        self.channel.send(pack(meta | {"o": printed}) if printed else packed, raw)
        reply, data = self.channel.receive()
        if reply.get("t") != "result":
            raise ToolError(str(reply.get("m")), name, index)
        result = self.decode(reply["v"], data)
        if is_empty(result):
            self._empty.append((index, line, result))
        return result

    def empty_calls(self, lines: frozenset[int], values: list[Any]) -> list[list[Any]]:
        """Return ``[index, reached]`` for each call with an empty result.

        Args:
            lines: lines that fed the failure.
            values: objects named on the failing line, or the value returned.
        """
        reached = {index for index, line, _ in self._empty if line in lines}
        for value in values:
            if type(value) not in (bool, type(None), str):
                reached |= {index for index, _, result in self._empty if result is value}
        return [[index, index in reached] for index, _, _ in self._empty]


def is_empty(value: Any) -> bool:
    """Return True for None, False, and containers and texts of length 0."""
    return (
        value is None or value is False or (type(value) in (list, tuple, dict, str) and not value)
    )
