"""Any value as JSON that every reader accepts: what stores and reports write."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_DEEPEST = 60
_LONGEST_REPR = 500
_WIDEST_INT_BITS = 4096


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON values.

    What JSON cannot say becomes text: numbers that are not finite (``"nan"``), integers of
    thousands of digits (in hexadecimal), other objects (their repr, cut). Arrays become lists;
    what lies deeper than any reader goes becomes ``"…"``.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _WIDEST_INT_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return plain(_fields(value), depth + 1)
    if hasattr(value, "tolist"):
        return plain(value.tolist(), depth + 1)
    return repr(value)[:_LONGEST_REPR]


def dumps(value: Any) -> str:
    """A value as one line of ASCII JSON; see :func:`plain`."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":"))


def _fields(record: Any) -> dict[str, Any]:
    """One level of a record; ``viper.schema.to_json`` knows no deepest level."""
    if isinstance(record, type):
        return {"type": record.__name__}
    return {name: getattr(record, name) for name in record.__dataclass_fields__}
