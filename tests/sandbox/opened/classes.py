"""A class may be derived from anything."""

from __future__ import annotations

from typing import Any

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox.classes import ProgramMeta

__all__ = ["READABLE", "decode", "encode", "names"]


def _new(mcs: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
    return type.__new__(mcs, name, bases, namespace)


ProgramMeta.__new__ = staticmethod(_new)  # type: ignore[assignment,method-assign]
