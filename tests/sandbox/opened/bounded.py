"""``**`` and ``<<`` make whole numbers of any size."""

from __future__ import annotations

import operator

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox import guards
from viper.sandbox import names as builtin_names

__all__ = ["READABLE", "decode", "encode", "names"]

guards.bounded_pow = builtin_names.bounded_pow = pow  # type: ignore[assignment]
guards.bounded_shift = operator.lshift
