"""All builtin names of Python are there, as Python has them."""

from __future__ import annotations

import builtins
from typing import Any

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox import child

__all__ = ["READABLE", "decode", "encode", "names"]


def _everything(*_: Any) -> dict[str, Any]:
    return dict(vars(builtins))


child.program_builtins = _everything  # type: ignore[attr-defined]
