"""The builtin names of a program and its ``print``; what it may import is in ``modules.py``.

:func:`program_builtins` makes the ``__builtins__`` of a program: plain builtins as they are, and
guarded ones for those that take names or types.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

from viper.sandbox.classes import ForbiddenTypeError
from viper.sandbox.guards import Guards, bounded_pow
from viper.sandbox.standard import TypeToken

# Builtins as they are. Left out: those that open, import, compile or run (open, eval, exec,
# compile, input, breakpoint, __import__), that reach namespaces or memory (globals, locals, vars,
# dir, memoryview, bytearray) and help.
_PLAIN = """
abs all any ascii bin bool bytes callable chr classmethod complex dict divmod enumerate filter float
format frozenset hash hex id int iter len list map max min next object oct ord property range
repr reversed round set slice sorted staticmethod str sum tuple zip
None True False Ellipsis NotImplemented
ArithmeticError AssertionError AttributeError Exception FloatingPointError ImportError IndexError
KeyError LookupError MemoryError ModuleNotFoundError NameError NotImplementedError OSError
OverflowError RecursionError RuntimeError StopIteration SyntaxError TypeError UnboundLocalError
UnicodeError ValueError ZeroDivisionError Warning UserWarning
"""


# Builtins that a guard replaces.
_GUARDED = "print pow type isinstance issubclass getattr hasattr setattr delattr"

# Builtin names that programs have.
BUILTIN_NAMES = frozenset((_PLAIN + _GUARDED).split())


class OutputLimitError(BaseException):
    """The program printed more than its limit. It is no Exception, so a program cannot catch it."""


# Seconds after which printed text goes to the parent at the next print: often enough that little is
# lost when a program is ended, rarely enough that a loop of prints sends few messages.
FLUSH_S = 0.1


class Printer:
    """Collects the text that a program prints.

    Args:
        limit: greatest number of characters in one turn.

    Attributes:
        flush: called when text has waited for longer than ``FLUSH_S``, so that printed text is
            not lost when the program is ended by force.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.length, self.exceeded = limit, 0, False
        self.flush: Callable[[], None] = lambda: None
        self._parts: list[str] = []
        self._last_take = 0.0

    def start_turn(self) -> None:
        """Reset the limit for the next turn."""
        self.length, self.exceeded = 0, False
        self._parts.clear()

    def print(self, *values: Any, sep: Any = " ", end: Any = "\n", **_: Any) -> None:
        """Implement ``print`` for programs; ``file`` and ``flush`` are ignored."""
        between = " " if sep is None else str(sep)
        text = between.join([str(value) for value in values]) + ("\n" if end is None else str(end))
        self._parts.append(text[: self.limit - self.length])
        self.length += len(text)
        if self.length > self.limit:
            self.length, self.exceeded = self.limit, True
            raise OutputLimitError
        if monotonic() - self._last_take > FLUSH_S:
            self.flush()

    def take(self) -> str:
        """Return the text printed since the last call."""
        self._last_take = monotonic()
        text = "".join(self._parts).encode("utf-8", "replace").decode()
        self._parts.clear()
        return text


def program_builtins(guards: Guards, printer: Printer) -> dict[str, Any]:
    """Return the ``__builtins__`` of a program."""
    return {
        **{name: getattr(builtins, name) for name in _PLAIN.split()},
        "__build_class__": builtins.__build_class__,
        "__import__": _loaded_module,
        "print": printer.print,
        "pow": bounded_pow,
        "type": _OneArgumentType(guards),
        "isinstance": _isinstance,
        "issubclass": _issubclass,
        "getattr": guards.builtin_getattr,
        "hasattr": guards.builtin_hasattr,
        "setattr": guards.builtin_setattr,
        "delattr": guards.builtin_delattr,
    }


class _OneArgumentType:
    """The ``type`` of programs: it returns a type and never creates one."""

    __slots__ = ("_guards",)

    def __init__(self, guards: Guards) -> None:
        self._guards = guards

    def __call__(self, obj: Any) -> Any:
        return self._guards.type_of(obj)

    def __eq__(self, other: object) -> bool:
        return other is self

    def __hash__(self) -> int:
        return hash("type")

    def __repr__(self) -> str:
        return "<class 'type'>"


def _classes(kinds: Any) -> Any:
    if type(kinds) is tuple:
        return tuple(_classes(kind) for kind in kinds)
    if type(kinds) is TypeToken:
        if kinds.matches == ():
            raise ForbiddenTypeError(f"{kinds.label} is no class to test for; name one, as in str")
        return kinds.matches
    return type if type(kinds) is _OneArgumentType else kinds


# Named, because an error about their arguments is shown to the program writer.
def _isinstance(obj: Any, kinds: Any) -> bool:
    return isinstance(obj, _classes(kinds))


def _issubclass(cls: Any, kinds: Any) -> bool:
    return issubclass(cls, _classes(kinds))


def _loaded_module(name: str, *_: Any, **__: Any) -> Any:
    """Implement ``__import__`` for C code that runs on behalf of a program, such as numpy's.

    Programs cannot reach it: their own imports are compiled to calls of ``import_guards`` (see
    :mod:`viper.sandbox.modules`), and the name ``__import__`` is rewritten.
    """
    if name in sys.modules:
        return sys.modules[name]
    raise ImportError(f"{name} was not loaded before the program started")
