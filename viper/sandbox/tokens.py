"""Stand-ins for types that a program may name and test for, but not inspect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType, NoneType
from typing import Any

import numpy as np

from viper.sandbox.classes import BASES, ForbiddenTypeError

_MAX_LISTED = 380


class TypeToken:
    """One such type.

    Args:
        label: its printed name.
        matches: the type that ``isinstance`` tests for when a program names the token.
        make: what a call of the token does; by default it cannot be called.
        members: attributes that programs may read, such as alternative constructors.
    """

    __slots__ = ("label", "make", "matches", "members")

    def __init__(
        self,
        label: str,
        matches: type | tuple[Any, ...] = (),
        make: Callable[..., Any] | None = None,
        members: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.label, self.matches, self.make, self.members = label, matches, make, members

    def __repr__(self) -> str:
        return self.label

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.make is None:
            raise TypeError(f"{self.label} is for annotations and isinstance(); it makes no object")
        return self.make(*args, **kwargs)

    def __getitem__(self, key: Any) -> TypeToken:
        if self.label not in ("Union", "Optional"):
            return self
        parts = key if type(key) is tuple else (key,)
        return _union(*parts, *([None] if self.label == "Optional" else []))

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        raise ForbiddenTypeError(f"a class cannot be derived from {self.label}; {BASES}")

    def __or__(self, other: object) -> TypeToken:
        return _union(self, other)

    def __ror__(self, other: object) -> TypeToken:
        return _union(other, self)


def _union(*parts: Any) -> TypeToken:
    matches = tuple(NoneType if part is None else actual_class(part) for part in parts)
    return TypeToken("Union", matches)


def actual_class(kind: Any) -> Any:
    """Return the type, or tuple of types, that a program means by a class or a stand-in."""
    return kind.matches if type(kind) is TypeToken else kind


def offered(names: Iterable[str], wanted: str = "") -> str:
    """Return the end of a refusal: the names that there are, or the closest of many."""
    names = sorted(names)
    if len(", ".join(names)) > _MAX_LISTED:
        names = get_close_matches(wanted, names, 5, cutoff=0.5)
        return f"; close to it: {', '.join(names)}" if names else ""
    return f"; it offers {', '.join(names)}" if names else ""


# Stand-in for ``numpy.ndarray``, whose constructor reads any memory; programs never get it.
NDARRAY = TypeToken("ndarray", np.ndarray)
