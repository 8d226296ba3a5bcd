"""The opcodes of pickles that plain data need, run on a stack of our own; see ``plain_pickle``."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any, NoReturn

from viper.data.plain_values import NAMES, Name, NotPlainError, checked_key, checked_keys

MAX_OPCODES = 20_000_000
"""Most opcodes run, and so most values made; the refs of RefCOCO take about five million."""

MAX_INT_BYTES = 1024


class _Mark:
    """Where the items of a container begin on the stack."""

    def __repr__(self) -> str:
        return "a mark"


class Machine:
    """Runs one pickle.

    Attributes:
        data: the pickle, ``at`` the next byte of it.
        stack, memo: as the protocol has them; ``push`` puts on the stack.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.push = self.stack.append

    def run(self) -> Any:
        """What the pickle holds.

        Raises:
            NotPlainError: cut short, damaged, too large, or not plain.
        """
        data = self.data
        try:
            for _ in range(MAX_OPCODES):
                code = data[self.at]
                self.at += 1
                if code == _STOP:
                    return self._end()
                _HANDLERS[code](self)
        except (IndexError, KeyError, TypeError, AttributeError, StructError):
            self._refuse_damaged()
        except (ValueError, OverflowError):
            raise NotPlainError(f"holds a number or text that is off at byte {self.at:,}") from None
        raise NotPlainError(f"has more than {MAX_OPCODES:,} opcodes")

    def _end(self) -> Any:
        if len(self.stack) != 1:
            raise NotPlainError(f"is damaged: {len(self.stack):,} values are left at its end")
        return self.stack[0]

    def _refuse_damaged(self) -> NoReturn:
        if self.at >= len(self.data):
            raise NotPlainError(
                f"is cut short at byte {len(self.data):,} or is no pickle"
            ) from None
        raise NotPlainError(f"is damaged at byte {self.at:,}") from None

    def number(self, layout: Struct) -> Any:
        """The number of that layout that comes next."""
        (value,) = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return value

    def line(self) -> bytes:
        """The rest of the line."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise NotPlainError(f"is cut short in the line at byte {self.at:,} or is no pickle")
        found = self.data[self.at : end]
        self.at = end + 1
        return found

    def sized(self, layout: Struct) -> bytes:
        """Bytes that follow their own length; nothing is made for a length that is not there."""
        length = self.number(layout)
        start, self.at = self.at, self.at + length
        if length < 0 or self.at > len(self.data):
            raise NotPlainError(f"is cut short: {length:,} bytes are announced at byte {start:,}")
        return self.data[start : self.at]

    def pop(self) -> Any:
        """The last value, which no mark may be."""
        value = self.stack.pop()
        if type(value) is _Mark:
            self._refuse_damaged()
        return value

    def since_mark(self) -> list[Any]:
        """Takes what was put since the last mark, and the mark."""
        stack = self.stack
        at = len(stack) - 1
        while type(stack[at]) is not _Mark:
            at -= 1
            if at < 0:
                self._refuse_damaged()
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def put(self, index: int) -> None:
        """Remembers the last value."""
        value = self.stack[-1]
        if type(value) is _Mark:
            self._refuse_damaged()
        self.memo[index] = value


def _extend(m: Machine, items: list[Any]) -> None:
    target = m.stack[-1]
    if type(target) is not list:
        raise NotPlainError("appends to something that is no list")
    target.extend(items)


def _set_items(m: Machine, items: list[Any]) -> None:
    target = m.stack[-1]
    if type(target) is not dict or len(items) % 2:
        raise NotPlainError("sets items of something that is no dict")
    for key, value in zip(items[::2], items[1::2], strict=True):
        target[key if type(key) is str else checked_key(key)] = value


def _add_items(m: Machine, items: list[Any]) -> None:
    target = m.stack[-1]
    if type(target) is not set:
        raise NotPlainError("adds to something that is no set")
    target.update(checked_keys(items))


def _dict(m: Machine) -> None:
    items = m.since_mark()
    m.push({})
    _set_items(m, items)


def _tuple(m: Machine, count: int) -> None:
    items = [m.pop() for _ in range(count)]
    m.push(tuple(reversed(items)))


def _long(m: Machine, digits: bytes) -> None:
    if len(digits) > MAX_INT_BYTES:
        raise NotPlainError(f"holds a whole number of {len(digits):,} bytes")
    m.push(int.from_bytes(digits, "little", signed=True))


def _int_line(m: Machine) -> None:
    line = m.line()
    m.push(line == b"01" if line in (b"00", b"01") else int(line))


def _string_line(m: Machine) -> None:
    quoted = m.line().strip()
    if len(quoted) < 2 or quoted[:1] not in (b"'", b'"') or quoted[:1] != quoted[-1:]:
        raise NotPlainError(f"holds a text without quotes before byte {m.at:,}")
    m.push(codecs.escape_decode(quoted[1:-1])[0].decode("latin1"))


def _protocol(m: Machine) -> None:
    if m.number(_U1) > 5:
        raise NotPlainError("is of a protocol above 5, or no pickle")


def _name(m: Machine) -> None:
    module, name = m.line().decode("latin1"), m.line().decode("latin1")
    known = NAMES.get((module, name))
    if known is None:
        raise NotPlainError(f"names {module[:40]!r}.{name[:40]!r}, which would be imported")
    m.push(known)


def _apply(m: Machine) -> None:
    given, name = m.pop(), m.pop()
    if type(name) is not Name:
        raise NotPlainError("calls something")
    m.push(name.make(given))


def _refuse(m: Machine) -> NoReturn:
    import pickletools

    code = m.data[m.at - 1]
    name = next((each.name for each in pickletools.opcodes if ord(each.code) == code), None)
    if name is None:
        raise NotPlainError(f"is no pickle: there is no opcode {bytes([code])!r}")
    raise NotPlainError(f"holds the opcode {name}, which plain data do not need")


def _number(layout: Struct) -> Callable[[Machine], None]:
    return lambda m: m.push(m.number(layout))


def _text(layout: Struct) -> Callable[[Machine], None]:
    return lambda m: m.push(m.sized(layout).decode("utf-8", "surrogatepass"))


def _python2_text(layout: Struct) -> Callable[[Machine], None]:
    return lambda m: m.push(m.sized(layout).decode("latin1"))


def _bytes(layout: Struct) -> Callable[[Machine], None]:
    return lambda m: m.push(m.sized(layout))


_U1, _U2, _U4, _U8 = Struct("<B"), Struct("<H"), Struct("<I"), Struct("<Q")
_I4, _DOUBLE = Struct("<i"), Struct(">d")

_STOP = ord(".")

_ADMITTED: dict[bytes, Callable[[Machine], object]] = {
    b"\x80": _protocol,
    b"\x95": lambda m: m.number(_U8),  # FRAME: there is nothing to read ahead
    b"(": lambda m: m.push(_Mark()),
    b"0": lambda m: m.stack.pop(),
    b"1": lambda m: m.since_mark(),
    b"2": lambda m: m.push(m.stack[-1]),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"I": _int_line,
    b"J": _number(_I4),
    b"K": _number(_U1),
    b"M": _number(_U2),
    b"G": _number(_DOUBLE),
    b"L": lambda m: m.push(int(m.line().removesuffix(b"L"))),
    b"\x8a": lambda m: _long(m, m.sized(_U1)),
    b"\x8b": lambda m: _long(m, m.sized(_I4)),
    b"F": lambda m: m.push(float(m.line())),
    b"S": _string_line,
    b"T": _python2_text(_I4),
    b"U": _python2_text(_U1),
    b"V": lambda m: m.push(m.line().decode("raw-unicode-escape")),
    b"X": _text(_U4),
    b"\x8c": _text(_U1),
    b"\x8d": _text(_U8),
    b"B": _bytes(_U4),
    b"C": _bytes(_U1),
    b"\x8e": _bytes(_U8),
    b"]": lambda m: m.push([]),
    b"l": lambda m: m.push(m.since_mark()),
    b"a": lambda m: _extend(m, [m.pop()]),
    b"e": lambda m: _extend(m, m.since_mark()),
    b")": lambda m: m.push(()),
    b"t": lambda m: m.push(tuple(m.since_mark())),
    b"\x85": lambda m: _tuple(m, 1),
    b"\x86": lambda m: _tuple(m, 2),
    b"\x87": lambda m: _tuple(m, 3),
    b"}": lambda m: m.push({}),
    b"d": _dict,
    b"s": lambda m: _set_items(m, [m.pop(), m.pop()][::-1]),
    b"u": lambda m: _set_items(m, m.since_mark()),
    b"\x8f": lambda m: m.push(set()),
    b"\x90": lambda m: _add_items(m, m.since_mark()),
    b"\x91": lambda m: m.push(frozenset(checked_keys(m.since_mark()))),
    b"p": lambda m: m.put(int(m.line())),
    b"q": lambda m: m.put(m.number(_U1)),
    b"r": lambda m: m.put(m.number(_U4)),
    b"\x94": lambda m: m.put(len(m.memo)),
    b"g": lambda m: m.push(m.memo[int(m.line())]),
    b"h": lambda m: m.push(m.memo[m.number(_U1)]),
    b"j": lambda m: m.push(m.memo[m.number(_U4)]),
    b"c": _name,
    b"R": _apply,
}

_HANDLERS = [_ADMITTED.get(bytes([code]), _refuse) for code in range(256)]
