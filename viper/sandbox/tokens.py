"""Stand-ins for types that a program may name and test for, but not call or inspect."""

from __future__ import annotations

import numpy as np


class TypeToken:
    """One such type.

    Args:
        label: its printed name.
        matches: the type that ``isinstance`` tests for when a program names the token.
    """

    __slots__ = ("label", "matches")

    def __init__(self, label: str, matches: type | tuple[type, ...] = ()) -> None:
        self.label, self.matches = label, matches

    def __repr__(self) -> str:
        return self.label

    def __getitem__(self, key: object) -> TypeToken:
        return self

    def __or__(self, other: object) -> TypeToken:
        return self

    __ror__ = __or__


NDARRAY = TypeToken("ndarray", np.ndarray)
"""Stand-in for ``numpy.ndarray``, whose constructor reads any memory; programs never get it."""
