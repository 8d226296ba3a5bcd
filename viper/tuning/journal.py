"""The journal of learning: one line of JSON a task, only ever appended to.

What a pool holds says what was learned; the journal says from which task, why, and what did not
hold. A process that is killed while it writes loses its own line alone, and learns from that task
again: what was in the pools by then is kept once.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from viper.errors import StoreError
from viper.tuning.lesson import Lesson

JOURNAL = "lessons.jsonl"
"""Of a run's folder."""

_LONGEST = 64 << 20
"""Bytes of a journal that is read."""


class Journal:
    """The lessons of a run's folder; several processes may append."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL

    def add(self, lesson: Lesson) -> None:
        """Appends a lesson; when this returns, it is on disk.

        Raises:
            StoreError: it cannot be written.
        """
        line = json.dumps(lesson.to_json(), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        try:
            with self.path.open("ab+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0, os.SEEK_END)
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    line = line if file.read(1) == b"\n" else b"\n" + line
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be written ({error.strerror})") from None

    def lessons(self) -> list[Lesson]:
        """All lessons in their order; of a task that has several the last one; torn lines are lost.

        Raises:
            StoreError: the file cannot be read, or a whole line of it is no lesson.
        """
        try:
            if not self.path.exists():
                return []
            if self.path.stat().st_size > _LONGEST:
                raise StoreError(f"{self.path}: larger than {_LONGEST >> 20} MiB; no journal")
            lines = self.path.read_bytes().split(b"\n")
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read ({error.strerror})") from None
        found: dict[tuple[str, int], Lesson] = {}
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                values = json.loads(line)
            except ValueError:
                continue  # cut short by the end of its writer
            if not isinstance(values, dict):
                raise StoreError(f"{self.path}, line {number}: not a lesson of viper")
            try:
                lesson = Lesson.from_json(values)
            except StoreError as error:
                raise StoreError(f"{self.path}, line {number}: {error}") from None
            found.pop(lesson.key, None)
            found[lesson.key] = lesson
        return list(found.values())
