"""Reads pickles of lists, dicts, texts and numbers, as RefCOCO's refs are, and refuses all others.

A pickle is a program. A strict ``find_class`` alone does not tame it: objects that :mod:`copyreg`
has cached for an extension code never reach it, BUILD sets attributes of what is there, a put at
a huge index makes the C unpickler allocate gigabytes, and hashing deeply shared tuples takes for
ever. So this is the standard library's unpickler in Python with a table of the opcodes that such
data need: none of them names, imports, builds or calls anything, makes a tuple, or trusts a
length, and their number is bounded.

Python 2's byte strings become text, as Latin-1.
"""

from __future__ import annotations

import pickle
import pickletools
import struct
from collections.abc import Callable
from io import BytesIO
from itertools import chain, islice
from typing import Any

from viper.data.source import SourceFile

# Longest file; the refs of RefCOCO have tens of megabytes at most.
MAX_BYTES = 256 * 2**20

# Most opcodes run, and so most values made; the refs of RefCOCO take about five million.
MAX_OPCODES = 20_000_000

# Most values, counted as often as they can be reached: a list may hold another one twice.
MAX_VALUES = 20_000_000

# Deepest nesting; the refs of RefCOCO are nested five deep.
MAX_DEPTH = 20

ADMITTED = """
PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT BINFLOAT
STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE EMPTY_LIST LIST APPEND APPENDS
EMPTY_DICT DICT SETITEM SETITEMS PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET
"""


def load_plain(source: SourceFile) -> Any:
    """Return the plain data in a pickle file.

    Raises:
        DataError: missing, too long, cut short, damaged, not plain, too deep or too large.
    """
    unpickler = pickle._Unpickler(BytesIO(source.read_bytes(MAX_BYTES)), encoding="latin1")
    unpickler.dispatch = _Opcodes()  # type: ignore[misc]  # one count for each load
    try:
        value = unpickler.load()
        _check_extent(value)
    except EOFError:
        seen = "is cut short or is no pickle"
    except pickle.UnpicklingError as error:
        seen = str(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error):
        seen = "is damaged or is no pickle"
    else:
        return value
    raise source.wrong("", seen, "a pickle of lists, dicts, texts and numbers")


class _Opcodes(dict[int, Callable[[Any], None]]):
    """Handlers of the admitted opcodes. Counts how many are run."""

    def __init__(self) -> None:
        handlers = pickle._Unpickler.dispatch
        codes = {each.name: ord(each.code) for each in pickletools.opcodes}
        super().__init__({codes[name]: handlers[codes[name]] for name in ADMITTED.split()})
        self._left = MAX_OPCODES

    def __getitem__(self, code: int) -> Callable[[Any], None]:
        self._left -= 1
        if self._left < 0:
            raise pickle.UnpicklingError(f"has more than {MAX_OPCODES:,} opcodes")
        return super().__getitem__(code)

    def __missing__(self, code: int) -> Callable[[Any], None]:
        name = next((each.name for each in pickletools.opcodes if ord(each.code) == code), None)
        if name is None:
            raise pickle.UnpicklingError(f"is no pickle: there is no opcode {bytes([code])!r}")
        raise pickle.UnpicklingError(f"holds the opcode {name}, which plain data do not need")


def _check_extent(root: Any) -> None:
    """Raise for lists that hold themselves, deep nesting, and sharing that unfolds without end."""
    level, count = [root], 0
    for _ in range(MAX_DEPTH):
        count += len(level)
        inner = (
            value.values() if isinstance(value, dict) else value
            for value in level
            if isinstance(value, dict | list)
        )
        level = list(islice(chain.from_iterable(inner), MAX_VALUES - count + 1))
        if not level:
            return
        if count + len(level) > MAX_VALUES:
            raise pickle.UnpicklingError(f"unfolds to more than {MAX_VALUES:,} values")
    raise pickle.UnpicklingError(f"is nested more than {MAX_DEPTH} deep or holds itself")
