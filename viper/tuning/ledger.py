"""A small store of whole versions: what was learned, and every state that it was in.

A ledger is a folder: an SQLite index with one row an entry, and beside it files of arrays that
entries refer to. An update is one transaction that makes one new version. Entries are never
changed: the row of an older state is marked with the version that ended it, so that each earlier
version can be read, and rolling back is an update like any other.

Writers take turns by SQLite's own lock, which dies with its process. Files are written before the
row that refers to them is committed; those whose commit never came are swept by the next writer.
A process may be killed at any moment: the last committed version is there, and whole.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from viper.errors import StoreError, UsageError
from viper.tuning.ledger_change import (
    AT_VERSION,
    FILES,
    INDEX,
    LIVE,
    Change,
    Entry,
    entry_of,
    select,
)
from viper.tuning.ledger_database import database_errors, open_to_read, open_to_write
from viper.tuning.ledger_files import read_arrays, sweep

__all__ = ["KEPT_VERSIONS", "Change", "Entry", "Ledger", "Version"]

KEPT_VERSIONS = 1_000
"""Versions that can be read and rolled back to; older ones are forgotten."""


@dataclass(frozen=True)
class Version:
    """A state of a ledger: when it was made (ISO 8601, UTC) and by what."""

    number: int
    made: str
    note: str


class Ledger:
    """Whole versions of entries in a folder; safe to use from several threads and processes.

    Args:
        folder: made by the first update; until then the ledger is empty, at version 0.
        kept_versions: how many can be read and rolled back to.
    """

    def __init__(self, folder: Path, kept_versions: int = KEPT_VERSIONS) -> None:
        self.folder = folder
        self._kept = max(1, kept_versions)
        self._reads, self._writes = threading.RLock(), threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._unswept = True

    @property
    def version(self) -> int:
        """Number of the newest version; 0 where nothing was ever kept."""
        found = self._rows("SELECT MAX(number) FROM versions")
        return self._whole(found[0][0] or 0) if found else 0

    @property
    def fingerprint(self) -> str:
        """Tells what the newest version holds, whatever its number is; empty where it is empty."""
        entries = self.entries()
        if not entries:
            return ""
        held = sorted(f"{one.topic} {one.key} {one.file} {one.record!r}" for one in entries)
        return hashlib.sha256("\n".join(held).encode()).hexdigest()[:16]

    def versions(self) -> list[Version]:
        """Those that can be rolled back to, the oldest first."""
        found = self._rows("SELECT number, made, note FROM versions ORDER BY number")
        return [Version(int(number), str(made), str(note)) for number, made, note in found]

    def changed(self, topic: str) -> int:
        """The last version in which an entry of the topic came, went or became another; 0: never.

        It never repeats for another content of the topic, so it can stand in the key of a cache.
        """
        found = self._rows("SELECT changed FROM topics WHERE topic = ?", topic)
        return self._whole(found[0][0]) if found else 0

    def entries(self, topic: str | None = None, version: int | None = None) -> list[Entry]:
        """Entries of one version, the newest by default, in the order in which they came.

        Raises:
            StoreError: an index that cannot be read, or a record that is no JSON object.
        """
        where, given = (LIVE, ()) if version is None else (AT_VERSION, (version, version))
        about, topics = ("", ()) if topic is None else (" AND topic = ?", (topic,))
        found = self._rows(f"{select(where + about)} ORDER BY rowid", *given, *topics)
        return [entry_of(row, self.folder) for row in found]

    def arrays(self, entry: Entry) -> dict[str, NDArray[Any]]:
        """The arrays of an entry; none where it has no file.

        Raises:
            StoreError: its file is missing, damaged, too large or of another kind.
        """
        return {} if entry.file is None else read_arrays(self.folder / FILES, entry.file)

    @contextmanager
    def update(self, note: str) -> Iterator[Change]:
        """A change that becomes the next version when the block ends; none where it raises.

        No version is made where nothing changed. Other writers wait, readers do not.

        Raises:
            StoreError: full disk, a broken index, or a lock that another writer does not give up.
        """
        index = self.folder / INDEX
        with self._writes, database_errors(index):
            if self._writer is None:
                self._writer = open_to_write(index)
            writer = self._writer
            writer.execute("BEGIN IMMEDIATE")
            try:
                self._sweep(writer)
                change = Change(writer, self.folder)
                yield change
                if change.is_any:
                    self._close_version(writer, change, note)
                writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    writer.execute("ROLLBACK")
                raise

    def roll_back(self, version: int) -> int:
        """Makes a version that is like an earlier one; its number, or the newest one's if equal.

        Raises:
            UsageError: no such version, or one that is forgotten.
        """
        if not self.version:
            raise UsageError(f"{self.folder}: nothing was kept yet; no version to roll back to")
        with self.update(f"rolled back to version {version}") as change:
            change.restore(version)
        return change.number if change.is_any else change.number - 1

    def close(self) -> None:
        """Closes the files; a later use opens them again."""
        with self._writes, self._reads:
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()
            self._reader = self._writer = None

    def _rows(self, statement: str, *given: Any) -> list[tuple[Any, ...]]:
        index = self.folder / INDEX
        with self._reads, database_errors(index):
            if self._reader is None:
                self._reader = open_to_read(index)
            if self._reader is None:
                return []
            return self._reader.execute(statement, given).fetchall()

    def _whole(self, value: Any) -> int:
        if not isinstance(value, int):
            raise StoreError(
                f"{self.folder / INDEX}: damaged; restore a copy, or move the folder away to "
                "begin anew"
            )
        return value

    def _sweep(self, writer: sqlite3.Connection) -> None:
        """Under the lock of writers, so that nobody's file waits for its row meanwhile."""
        if self._unswept:
            found = writer.execute("SELECT DISTINCT file FROM entries WHERE file IS NOT NULL")
            sweep(self.folder / FILES, {str(name) for (name,) in found})
            self._unswept = False

    def _close_version(self, writer: sqlite3.Connection, change: Change, note: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        writer.execute("INSERT INTO versions VALUES (?, ?, ?)", (change.number, now, note))
        oldest = change.number - self._kept + 1
        writer.execute("DELETE FROM versions WHERE number < ?", (oldest,))
        gone = writer.execute("DELETE FROM entries WHERE died <= ?", (oldest,)).rowcount
        self._unswept = self._unswept or gone > 0
