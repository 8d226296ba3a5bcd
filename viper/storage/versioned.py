"""A small versioned store: a folder whose earlier states can be read and restored.

A store is an SQLite index with one row per entry, and files of arrays that entries refer to. An
update is one transaction and creates one new version. Entries never change: the row of an older
state is marked with the version that ended it. So each earlier version can be read, and rolling
back is an update like any other.

Writers wait for each other by SQLite's own lock, which ends with its process. Files are written
before the row that refers to them is committed; the next writer deletes files whose commit never
happened. If a process is killed at any moment, the last committed version is complete.

A file of arrays is named by its content. It may come from anywhere, so its size is bounded and its
content is checked against its name. It is parsed as safetensors, which holds arrays and executes
nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from viper.errors import StoreError, UsageError
from viper.storage.files import file_errors, read_plain_file, write_file
from viper.storage.sqlite import Format, database_errors, open_to_read, open_to_write

INDEX, FILES = "index.db", "files"

# Number of versions that can be read and restored; older ones are deleted, since each keeps its
# files on the disk.
MAX_VERSIONS = 1_000

# Greatest length of an entry's record in characters: ten times the longest demonstration, so that a
# damaged store cannot fill the memory.
MAX_RECORD_CHARS = 1 << 20

# Greatest size of one file of arrays: the 300 vectors of a matcher's prompt take 1 MB at a width of
# 768; a damaged or foreign file is refused before it fills the memory.
MAX_FILE_BYTES = 16 << 20

Arrays = Mapping[str, NDArray[Any]]

# Commits are durable: updates are rare, and the last commit decides which files to delete.
_INDEX = Format(
    tables=(
        "CREATE TABLE versions (number INTEGER PRIMARY KEY, made TEXT NOT NULL, "
        "note TEXT NOT NULL)",
        "CREATE TABLE entries (key TEXT NOT NULL, topic TEXT NOT NULL, record TEXT NOT NULL, "
        "file TEXT, born INTEGER NOT NULL, died INTEGER)",
        "CREATE UNIQUE INDEX live ON entries (key) WHERE died IS NULL",
        "CREATE INDEX by_topic ON entries (topic, born)",
        "CREATE TABLE topics (topic TEXT PRIMARY KEY, changed INTEGER NOT NULL)",
    ),
    version=1,
    application_id=0x5649504C,  # "VIPL"
    repair="restore a copy, or move its folder away to begin anew",
    elsewhere="choose another --state",
)

_PRESENT = "died IS NULL"
_AT_VERSION = "born <= ? AND (died IS NULL OR died > ?)"
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """One entry of a store.

    Attributes:
        key: identifies the entry; a version has at most one entry per key.
        kind: kind of the entry, column ``topic``; see :meth:`VersionedStore.changed`.
        record: JSON values.
        file: name of its file of arrays, as :meth:`Change.store` returned it.
        created_in: the version that added the entry or gave it its present content.
    """

    key: str
    kind: str
    record: Mapping[str, Any]
    file: str | None = None
    created_in: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Version:
    """One state of a store: when it was created (ISO 8601, UTC) and why."""

    number: int
    made: str
    note: str


class VersionedStore:
    """Entries in a folder, in versions; safe to use from several threads and processes.

    Args:
        folder: created by the first update; until then the store is empty, at version 0.
        kept_versions: number of versions that can be read and restored.
    """

    def __init__(self, folder: Path, kept_versions: int = MAX_VERSIONS) -> None:
        self.folder = folder
        self._max_versions = max(1, kept_versions)
        self._reads, self._writes = threading.RLock(), threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._must_sweep = True

    @property
    def version(self) -> int:
        """Return the number of the newest version; 0 if the store was never updated."""
        rows = self._rows("SELECT MAX(number) FROM versions")
        return self._whole(rows[0][0] or 0) if rows else 0

    @property
    def fingerprint(self) -> str:
        """Return a hash of the newest version's content, whatever its number; empty for an empty
        store.
        """
        entries = self.entries()
        if not entries:
            return ""
        lines = sorted(f"{item.kind} {item.key} {item.file} {item.record!r}" for item in entries)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def versions(self) -> list[Version]:
        """Return the versions that can be restored, oldest first."""
        rows = self._rows("SELECT number, made, note FROM versions ORDER BY number")
        return [Version(int(number), str(made), str(note)) for number, made, note in rows]

    def changed(self, kind: str) -> int:
        """Return the last version that added, removed or changed an entry of the kind, or 0 if
        none did.

        The number never repeats for different content of the kind, so it can be part of a cache
        key.
        """
        rows = self._rows("SELECT changed FROM topics WHERE topic = ?", kind)
        return self._whole(rows[0][0]) if rows else 0

    def entries(self, kind: str | None = None, version: int | None = None) -> list[Entry]:
        """Return the entries of a version (default: the newest) in the order of their insertion.

        Raises:
            StoreError: the index cannot be read, or a record is no JSON object.
        """
        statement, parameters = _select_all(kind, version)
        return [_entry_of(row, self.folder) for row in self._rows(statement, *parameters)]

    def arrays(self, entry: Entry) -> dict[str, NDArray[Any]]:
        """Return the arrays of an entry; none if it has no file.

        Raises:
            StoreError: its file is missing, damaged, too large or of another kind.
        """
        name, folder = entry.file, self.folder / FILES
        if name is None:
            return {}
        from safetensors import SafetensorError
        from safetensors.numpy import load

        if not _NAME.fullmatch(name):
            raise StoreError(f"{folder}: {name[:80]!r} is no name of a file here; restore a copy")
        path = folder / f"{name}.safetensors"
        content = read_plain_file(path, MAX_FILE_BYTES)
        if hashlib.sha256(content).hexdigest() != name:
            problem = "damaged, its content is not what was written"
            raise StoreError(f"{path}: {problem}; restore a copy")
        try:
            return load(content)
        except (SafetensorError, ValueError, TypeError, KeyError) as error:
            raise StoreError(f"{path}: no safetensors file of plain arrays ({error})") from None

    @contextmanager
    def update(self, note: str) -> Iterator[Change]:
        """Yield a change that becomes the next version when the block ends without an error.

        A block that changes nothing creates no version. Other writers wait, readers do not.

        Raises:
            StoreError: full disk, a damaged index, or a lock that another writer does not release.
        """
        index = self.folder / INDEX
        with self._writes, database_errors(index, _INDEX):
            if self._writer is None:
                self._writer = open_to_write(index, _INDEX)
            writer = self._writer
            writer.execute("BEGIN IMMEDIATE")
            try:
                self._sweep(writer)
                change = Change(writer, self.folder)
                yield change
                if change.is_any:
                    now = datetime.now(UTC).isoformat(timespec="seconds")
                    version = (change.number, now, note)
                    writer.execute("INSERT INTO versions VALUES (?, ?, ?)", version)
                    oldest = (change.number - self._max_versions + 1,)
                    writer.execute("DELETE FROM versions WHERE number < ?", oldest)
                    ended = writer.execute("DELETE FROM entries WHERE died <= ?", oldest)
                    self._must_sweep = self._must_sweep or ended.rowcount > 0
                writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    writer.execute("ROLLBACK")
                raise

    def roll_back(self, version: int) -> int:
        """Create a version equal to an earlier one and return its number.

        If the newest version is already equal, return its number.

        Raises:
            UsageError: the version does not exist or has been deleted.
        """
        if not self.version:
            raise UsageError(f"{self.folder}: nothing was kept yet; no version to roll back to")
        with self.update(f"rolled back to version {version}") as change:
            change.restore(version)
        return change.number if change.is_any else change.number - 1

    def close(self) -> None:
        """Close the files; a later use opens them again."""
        with self._writes, self._reads:
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()
            self._reader = self._writer = None

    def _rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        index = self.folder / INDEX
        with self._reads, database_errors(index, _INDEX):
            if self._reader is None:
                self._reader = open_to_read(index, _INDEX)
            if self._reader is None:
                return []
            return self._reader.execute(statement, parameters).fetchall()

    def _whole(self, value: Any) -> int:
        if not isinstance(value, int):
            raise StoreError(
                f"{self.folder / INDEX}: damaged; restore a copy, or move the folder away to "
                "begin anew"
            )
        return value

    def _sweep(self, writer: sqlite3.Connection) -> None:
        """Delete files of dead writers and files without a reference.

        This is done under the writers' lock, so that no file is still waiting for its row.
        """
        if not self._must_sweep:
            return
        rows = writer.execute("SELECT DISTINCT file FROM entries WHERE file IS NOT NULL")
        referenced = {str(name) for (name,) in rows}
        folder = self.folder / FILES
        with file_errors(folder):
            for path in folder.iterdir() if folder.is_dir() else ():
                is_ours = path.suffix in (".tmp", ".safetensors")
                if is_ours and path.stem not in referenced:
                    path.unlink(missing_ok=True)
        self._must_sweep = False


class Change:
    """The changes of one update, created by :meth:`VersionedStore.update`.

    Attributes:
        number: number of the version that it creates.
        is_any: whether anything has changed.
    """

    def __init__(self, writer: sqlite3.Connection, folder: Path) -> None:
        self._writer, self._folder = writer, folder
        (newest,) = writer.execute("SELECT COALESCE(MAX(number), 0) FROM versions").fetchone()
        self.number = int(newest) + 1
        self.is_any = False

    def entries(self, kind: str | None = None, version: int | None = None) -> list[Entry]:
        """Return the entries of a version, or as they are now, including those of this change."""
        rows = self._writer.execute(*_select_all(kind, version))
        return [_entry_of(row, self._folder) for row in rows]

    @property
    def count(self) -> int:
        """Return the present number of entries."""
        rows = self._writer.execute(f"SELECT COUNT(*) FROM entries WHERE {_PRESENT}")
        return int(rows.fetchone()[0])

    def get(self, key: str) -> Entry | None:
        """Return the present entry of a key."""
        row = self._writer.execute(_select(f"key = ? AND {_PRESENT}"), (key,)).fetchone()
        return None if row is None else _entry_of(row, self._folder)

    def store(self, arrays: Arrays) -> str:
        """Write arrays to a file and return its name, for an entry's ``file``.

        Raises:
            StoreError: the disk is full, or the arrays are too large.
        """
        import numpy as np
        from safetensors.numpy import save

        content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
        if len(content) > MAX_FILE_BYTES:
            raise StoreError(
                f"{len(content)} bytes of arrays; a file holds at most {MAX_FILE_BYTES}"
            )
        name = hashlib.sha256(content).hexdigest()
        write_file(self._folder / FILES / f"{name}.safetensors", content)
        return name

    def put(self, entry: Entry) -> None:
        """Store an entry, in place of the one with its key.

        Raises:
            StoreError: its record is too large.
        """
        previous = self.get(entry.key)
        if previous == entry:
            return
        text = json.dumps(entry.record, allow_nan=False)
        if len(text) > MAX_RECORD_CHARS:
            raise StoreError(
                f"a record of {len(text)} characters; at most {MAX_RECORD_CHARS} are kept"
            )
        if previous is not None:
            self._end(previous)
        row = (entry.key, entry.kind, text, entry.file, self.number)
        self._writer.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, NULL)", row)
        self._touch(entry.kind)

    def drop(self, key: str) -> None:
        """Remove the entry with that key, if it exists."""
        entry = self.get(key)
        if entry is not None:
            self._end(entry)

    def restore(self, version: int) -> None:
        """Restore the state of an earlier version.

        Raises:
            UsageError: the version does not exist or has been deleted.
        """
        rows = self._writer.execute("SELECT number FROM versions ORDER BY number")
        versions = [int(number) for (number,) in rows]
        if versions[:1] == [1]:
            versions = [0, *versions]
        if version not in versions:
            stored = "nothing was kept yet"
            if versions:
                stored = f"there are {versions[0]} to {versions[-1]}"
            raise UsageError(f"{self._folder}: no version {version} to roll back to; {stored}")
        earlier = self.entries(version=version)
        for key in {entry.key for entry in self.entries()} - {entry.key for entry in earlier}:
            self.drop(key)
        for entry in earlier:
            self.put(entry)

    def _end(self, entry: Entry) -> None:
        if entry.created_in == self.number:
            self._writer.execute("DELETE FROM entries WHERE key = ? AND died IS NULL", (entry.key,))
        else:
            update = "UPDATE entries SET died = ? WHERE key = ? AND died IS NULL"
            self._writer.execute(update, (self.number, entry.key))
        self._touch(entry.kind)

    def _touch(self, kind: str) -> None:
        self._writer.execute(
            "INSERT INTO topics VALUES (?, ?) ON CONFLICT DO UPDATE SET changed = excluded.changed",
            (kind, self.number),
        )
        self.is_any = True


def _select(where: str) -> str:
    """Return the SQL query for the rows that :func:`_entry_of` reads.

    It reads one character more than the limit, so a record that is too long is noticed without
    reading all of it.
    """
    record = f"substr(record, 1, {MAX_RECORD_CHARS + 1})"
    return f"SELECT key, topic, {record}, file, born FROM entries WHERE {where}"


def _select_all(kind: str | None, version: int | None) -> tuple[str, tuple[Any, ...]]:
    """Return the query for the entries of a version, or the present ones, with its parameters."""
    where, versions = (_PRESENT, ()) if version is None else (_AT_VERSION, (version, version))
    condition, kinds = ("", ()) if kind is None else (" AND topic = ?", (kind,))
    return f"{_select(where + condition)} ORDER BY rowid", (*versions, *kinds)


def _entry_of(row: tuple[Any, ...], folder: Path) -> Entry:
    """Return the entry of a row of :func:`_select`.

    Raises:
        StoreError: the record is no JSON object.
    """
    key, kind, text, file, created_in = row
    record: Any = None
    if isinstance(text, str) and len(text) <= MAX_RECORD_CHARS:
        with suppress(ValueError, RecursionError):
            record = json.loads(text)
    if not isinstance(record, dict) or not isinstance(created_in, int):
        raise StoreError(
            f"{folder / INDEX}: the entry {str(key)[:80]!r} is damaged; restore a copy, or move "
            "the folder away to begin anew"
        )
    return Entry(str(key), str(kind), record, None if file is None else str(file), created_in)
