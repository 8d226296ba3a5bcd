"""Files of JSON lines that are only ever appended to, by several processes at once.

A process that is killed while it writes loses its own line alone.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, TypeVar

from viper.errors import StoreError, UsageError
from viper.evaluate.runs.files import file_errors
from viper.evaluate.runs.plain import dumps
from viper.record import record_from_json

_R = TypeVar("_R")


def append_line(path: Path, record: Any) -> None:
    """Appends a record; when this returns, it is on disk.

    Raises:
        StoreError: it cannot be written.
    """
    line = dumps(record).encode("utf-8", "replace") + b"\n"
    with file_errors(path), path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if _cut_short(file):
            line = b"\n" + line
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path, kind: type[_R], what: str) -> list[_R]:
    """What all lines say, in their order; one that was cut short is left out.

    Args:
        kind: of the records.
        what: a line should be, for the message.

    Raises:
        StoreError: the file cannot be read, or a line is something else.
    """
    if not path.exists():
        return []
    with file_errors(path):
        lines = path.read_bytes().split(b"\n")
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found.append(record_from_json(kind, json.loads(line)))
        except (ValueError, UsageError, RecursionError) as error:
            if not _is_torn(lines, number):
                raise StoreError(f"{path}:{number}: not {what} of viper ({error})") from None
    return found


def _cut_short(file: Any) -> bool:
    """Whether the last line lacks its end."""
    if file.seek(0, os.SEEK_END) == 0:
        return False
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) != b"\n")


def _is_torn(lines: list[bytes], number: int) -> bool:
    """Whether a line is what a killed process left: the last, or one without a closing brace."""
    return number == len(lines) or not lines[number - 1].rstrip().endswith(b"}")
