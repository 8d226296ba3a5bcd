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
from dataclasses import fields, is_dataclass
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
    if isinstance(value, type) and is_dataclass(value):
        return {"type": value.__name__}
    if is_dataclass(value):
        # one level at a time, because viper.schema.to_json has no depth limit
        shown = [item.name for item in fields(value) if "exclude" not in item.metadata]
        return plain({name: getattr(value, name) for name in shown}, depth + 1)
    if hasattr(value, "tolist"):
        return plain(value.tolist(), depth + 1)
    return repr(value)[:_LONGEST_REPR]


def dumps(value: Any) -> str:
    """Return a value as one line of ASCII JSON; see :func:`plain`."""
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":"))


def append_line(path: Path, record: Any) -> None:
    """Append a record; when this returns, it is on disk.

    Raises:
        StoreError: it cannot be written, or the file is a link.
    """

    def no_link(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o666)

    line = dumps(record).encode("utf-8", "replace") + b"\n"
    with file_errors(path), open(path, "ab+", opener=no_link) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a killed process left half a line
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
            # a killed process left this line if it is the last, or has no closing brace
            if number < len(lines) and line.rstrip().endswith(b"}"):
                raise StoreError(f"{path}:{number}: not {what} of viper ({error})") from None
    return records
