"""All of numpy, not the chosen functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox import modules

__all__ = ["READABLE", "decode", "encode", "names"]


def _public(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}


def _everything() -> dict[str, Any]:
    return _public(np) | {"linalg": _public(np.linalg), "random": _public(np.random)}


modules.numpy_members = _everything  # type: ignore[attr-defined]
