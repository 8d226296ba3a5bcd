"""Every module can be imported, and any attribute of any object may be read."""

from __future__ import annotations

from tests.sandbox.opened import attributes, imports  # noqa: F401  (two patches)
from tests.sandbox.opened.base import READABLE, decode, encode, names

__all__ = ["READABLE", "decode", "encode", "names"]
