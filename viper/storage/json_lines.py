"""Any value as JSON that every reader accepts, and files with one JSON value per line.

Several processes may append to such a file at once, and nothing else changes it. A process that is
killed while it writes loses only its own line.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from viper.errors import StoreError, UsageError
from viper.record import record_from_json
from viper.storage.files import file_errors

_R = TypeVar("_R")

# Far below the recursion limits of Python's and browsers' readers, far above any real answer.
_DEEPEST = 60

# Text of a foreign object: enough to tell its class and content, and a row stays small.
_LONGEST_REPR = 500

# Below the 4,300 digits that Python's JSON reader converts.
_WIDEST_INT_BITS = 4096


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON values.

    Values that JSON cannot hold become text: numbers that are not finite (``"nan"``), integers of
    thousands of digits (in hexadecimal), and other objects (their repr, cut). Arrays become lists.
    Values nested deeper than readers support become ``"…"``.
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
    """Return a value as one line of ASCII JSON; see :func:`plain`."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":"))


def _fields(record: Any) -> dict[str, Any]:
    """Return one level of a record, because ``viper.schema.to_json`` has no depth limit."""
    if isinstance(record, type):
        return {"type": record.__name__}
    fields = record.__dataclass_fields__.items()
    return {name: getattr(record, name) for name, item in fields if "exclude" not in item.metadata}


def append_line(path: Path, record: Any) -> None:
    """Append a record; when this returns, it is on disk.

    Raises:
        StoreError: it cannot be written.
    """
    line = dumps(record).encode("utf-8", "replace") + b"\n"
    with file_errors(path), path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_cut_short(file):
            line = b"\n" + line
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path, kind: type[_R], what: str) -> list[_R]:
    """Return the records of all lines in order, without a line that was cut short.

    Args:
        kind: class of the records.
        what: name of the expected content of a line, for the message.

    Raises:
        StoreError: the file cannot be read, or a line is something else.
    """
    if not path.exists():
        return []
    with file_errors(path):
        lines = path.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(record_from_json(kind, json.loads(line)))
        except (ValueError, UsageError, RecursionError) as error:
            if not _is_torn(lines, number):
                raise StoreError(f"{path}:{number}: not {what} of viper ({error})") from None
    return records


def _is_cut_short(file: Any) -> bool:
    """Return whether the last line lacks its end."""
    if file.seek(0, os.SEEK_END) == 0:
        return False
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) != b"\n")


def _is_torn(lines: list[bytes], number: int) -> bool:
    """Return whether a killed process left this line: it is the last, or has no closing brace."""
    return number == len(lines) or not lines[number - 1].rstrip().endswith(b"}")
