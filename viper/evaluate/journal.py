"""The journal of learning: one line of JSON a task, only ever appended to.

What a pool holds says what was learned; the journal says from which task, why, and what did not
hold. A process that is killed while it writes loses its own line alone, and learns from that task
again: what was in the pools by then is kept once.
"""

from __future__ import annotations

from pathlib import Path

from viper.storage.json_lines import append_line, read_lines
from viper.tuning.lesson import Lesson

JOURNAL = "lessons.jsonl"
"""Of a run's folder."""


class Journal:
    """The lessons of a run's folder; several processes may append."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL

    def add(self, lesson: Lesson) -> None:
        """Appends a lesson; when this returns, it is on disk.

        Raises:
            StoreError: it cannot be written.
        """
        append_line(self.path, lesson)

    def lessons(self) -> list[Lesson]:
        """All lessons in their order; of a task that has several the last one; torn lines are lost.

        Raises:
            StoreError: the file cannot be read, or a whole line of it is no lesson.
        """
        found: dict[tuple[str, int], Lesson] = {}
        for lesson in read_lines(self.path, Lesson, "a lesson"):
            found.pop(lesson.key, None)
            found[lesson.key] = lesson
        return list(found.values())
