"""What a pickle of plain data may name, and what it may use as a key; see ``plain_pickle``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_SCALARS = (str, int, float, bool, bytes, type(None))


class NotPlainError(Exception):
    """A pickle that is damaged or does not hold plain data; the message says what was seen."""


class Name:
    """A name that may be written in a pickle, and only as what makes plain data of plain data.

    Attributes:
        takes: types of the arguments; fewer may be given.
    """

    def __init__(self, spelling: str, make: Callable[..., Any], takes: tuple[type, ...]) -> None:
        self._spelling, self._make, self._takes = spelling, make, takes

    def __repr__(self) -> str:
        return f"the name {self._spelling}"

    def make(self, given: Any) -> Any:
        """The plain value of a tuple of arguments."""
        if type(given) is not tuple or tuple(map(type, given)) != self._takes[: len(given)]:
            raise NotPlainError(f"uses {self} in a way that plain data do not need")
        return self._make(*given)


def checked_key(key: Any) -> Any:
    """The key itself, if a scalar or a tuple of scalars: hashing anything else may never end."""
    parts = key if type(key) in (tuple, frozenset) else (key,)
    if not all(type(part) in _SCALARS for part in parts):
        raise NotPlainError("has a key or a member of a set that is no scalar or tuple of scalars")
    return key


def checked_keys(keys: Sequence[Any] = ()) -> list[Any]:
    """The members of a set; see :func:`checked_key`."""
    return [checked_key(key) for key in keys]


def _encoded(text: str = "", encoding: str = "latin1") -> bytes:
    if encoding != "latin1":
        raise NotPlainError("encodes text as something other than latin1")
    return text.encode("latin1")


_SET = Name("set", lambda items=(): set(checked_keys(items)), (list,))
_FROZENSET = Name("frozenset", lambda items=(): frozenset(checked_keys(items)), (list,))
_BYTES = Name("bytes", bytes, ())

NAMES = {
    ("__builtin__", "set"): _SET,
    ("builtins", "set"): _SET,
    ("__builtin__", "frozenset"): _FROZENSET,
    ("builtins", "frozenset"): _FROZENSET,
    ("__builtin__", "bytes"): _BYTES,
    ("builtins", "bytes"): _BYTES,
    ("_codecs", "encode"): Name("_codecs.encode", _encoded, (str, str)),
}
"""Module and name, as Python 2 or 3 writes them; nothing is looked up by them anywhere else."""
