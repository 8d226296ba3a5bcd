"""Arrays of objects, also of the program's own."""

from __future__ import annotations

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox import classes, guards, numpy_facade

__all__ = ["READABLE", "decode", "encode", "names"]

classes.NEVER_IN_ARRAYS.clear()
numpy_facade.refuse_objects = lambda value: value
guards.refuse_objects = numpy_facade.refuse_objects  # type: ignore[attr-defined]
