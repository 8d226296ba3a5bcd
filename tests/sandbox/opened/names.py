"""Names that begin with an underscore stay as they are, and none is refused."""

from __future__ import annotations

import unicodedata  # noqa: F401  (the parser needs it for names that are not ASCII)

from tests.sandbox.opened.base import READABLE, decode, encode, names
from viper.sandbox.policy import ProgramPolicy
from viper.sandbox.prepass import Prepass

__all__ = ["READABLE", "decode", "encode", "names"]

ProgramPolicy.check_name = lambda *_, **__: None  # type: ignore[method-assign]
Prepass._rename = lambda self, name, node: name  # type: ignore[method-assign]
Prepass._check_special = lambda self, node: None  # type: ignore[method-assign]
