"""How a program's tool calls leave the child."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from viper.sandbox.names import Printer
from viper.sandbox.prepass import PREFIX, hidden
from viper.sandbox.wire import Channel, Ref, WireError, decode, encode, pack

FILENAME = "<program"
"""How the file names of programs begin; turns of a session are numbered."""

ROUTINES = "<routines "
"""How the file names of sources begin."""


class ToolError(Exception):
    """A tool refused or failed; what a program may catch."""

    def __init__(self, message: str, tool: str, index: int) -> None:
        super().__init__(message)
        self._tool, self._index = tool, index

    @property
    def origin(self) -> tuple[str, int]:
        """(tool, call index)."""
        return self._tool, self._index


class Variables(Mapping[str, Any]):
    """The outermost variables of a program by the names that its author gave them; read only.

    What a prelude provides is among them. Guards and what belongs to Python are not: their names
    begin with an underscore, and a name of the author's that does leads elsewhere.
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
    """``call(name, *args, **kwargs)`` of a prelude: asks the parent and waits.

    Attributes:
        variables: the program's, for what the prelude provides.
    """

    _channel: Channel
    variables: Mapping[str, Any] = Variables({})

    def __init__(self, printer: Printer, max_message: int) -> None:
        self._printer, self._max_message = printer, max_message
        self._encode: Callable[[Any], Ref | None] = lambda obj: None
        self._decode: Callable[[Ref], Any] = lambda ref: ref
        self.start_turn()

    def connect(self, channel: Channel) -> None:
        """Sets the wire to the parent."""
        self._channel = channel

    def use_types(self, encode: Callable[[Any], Ref | None], decode: Callable[[Ref], Any]) -> None:
        """Sets how the prelude's values cross the wire."""
        self._encode, self._decode = encode, decode

    def start_turn(self) -> None:
        """Forgets the calls of the turn before."""
        self._count = 0
        self._empty: list[tuple[int, int | None, Any]] = []
        self._derived: list[tuple[Any, int]] = []

    def __call__(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        index, line = self._count, program_line()
        self._count += 1
        raw: list[memoryview] = []
        try:
            packed = self._pack_call(name, args, kwargs, line, raw)
        except WireError as error:
            self._count -= 1
            raise TypeError(f"{name}: {error}") from None
        self._channel.send_packed(packed, raw)
        reply, data = self._channel.receive()
        if reply.get("t") != "result":
            raise ToolError(str(reply.get("m")), name, index)
        result = decode(reply["v"], data, self._decode)
        if is_empty(result):
            self._empty.append((index, line, result))
        return result

    def _pack_call(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        line: int | None,
        raw: list[memoryview],
    ) -> bytes:
        meta = {
            "t": "call",
            "n": name,
            "a": [encode(arg, raw, self._encode) for arg in args],
            "k": [[key, encode(arg, raw, self._encode)] for key, arg in kwargs.items()],
            "l": line,
        }
        packed = pack(meta)
        size = len(packed) + sum(part.nbytes for part in raw)
        if size > self._max_message:
            raise WireError(f"its arguments take {size} bytes, the limit is {self._max_message}")
        printed = self._printer.take()
        return pack(meta | {"o": printed}) if printed else packed

    def derived(self, result: Any, source: Any) -> Any:
        """Notes that ``result`` is empty because the tool result ``source`` is, and answers it."""
        for index, _, value in self._empty:
            if value is source:
                self._derived.append((result, index))
        return result

    def empty_calls(self, lines: frozenset[int], values: list[Any]) -> list[list[Any]]:
        """``[index, reached]`` of each call with an empty result.

        Args:
            lines: lines that fed the failure.
            values: objects named on the failing line, or the value returned.
        """
        reached = {index for index, line, _ in self._empty if line in lines}
        for value in values:
            if type(value) not in (bool, type(None), str):
                reached |= {index for index, _, result in self._empty if result is value}
                reached |= {index for result, index in self._derived if result is value}
        return [[index, index in reached] for index, _, _ in self._empty]


def is_empty(value: Any) -> bool:
    """None, False, and containers and texts of length 0."""
    return (
        value is None or value is False or (type(value) in (list, tuple, dict, str) and not value)
    )


def program_line() -> int | None:
    """The line that the program is at, seen from trusted code that it called."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(FILENAME):
            return frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None
