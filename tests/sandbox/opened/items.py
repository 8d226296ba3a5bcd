"""Items of any object may be read."""

from __future__ import annotations

import operator

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox.guards import Guards

__all__ = ["READABLE", "decode", "encode", "names"]

Guards.getitem = staticmethod(operator.getitem)  # type: ignore[assignment,method-assign]
