"""A class pattern may read any attribute."""

from __future__ import annotations

from typing import Any

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox.guards import Guards
from viper.sandbox.standard import actual_class

__all__ = ["READABLE", "decode", "encode", "names"]


def _match_class(self: Guards, cls: Any, positions: int, wanted: tuple[str, ...]) -> Any:
    return actual_class(cls)


Guards.match_class = _match_class  # type: ignore[method-assign]
