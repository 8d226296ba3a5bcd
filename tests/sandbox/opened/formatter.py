"""``str.format`` and ``str.format_map`` are Python's own."""

from __future__ import annotations

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox.guards import Guards

__all__ = ["READABLE", "decode", "encode", "names"]

Guards._format = staticmethod(getattr)  # type: ignore[assignment,method-assign]
