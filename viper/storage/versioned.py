"""A small store of whole versions: what was learned, and every state that it was in.

A ledger is a folder: an SQLite index with one row an entry, and beside it files of arrays that
entries refer to. An update is one transaction that makes one new version. Entries are never
changed: the row of an older state is marked with the version that ended it, so that each earlier
version can be read, and rolling back is an update like any other.

Writers take turns by SQLite's own lock, which dies with its process. Files are written before the
row that refers to them is committed; those whose commit never came are swept by the next writer.
A process may be killed at any moment: the last committed version is there, and whole.

A file of arrays is named by its content. It may come from anywhere: its size is bounded, its
content is what its name says, and it is parsed as safetensors, which holds arrays and runs nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping
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

KEPT_VERSIONS = 1_000
"""Versions that can be read and rolled back to; older ones are forgotten."""

MOST_RECORD = 1 << 20
"""Characters of an entry's record."""

MOST_BYTES = 16 << 20
"""Of one file of arrays."""

Arrays = Mapping[str, NDArray[Any]]

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
"""Updates are rare, and files are deleted by what the last commit says."""

_LIVE = "died IS NULL"
_AT_VERSION = "born <= ? AND (died IS NULL OR died > ?)"
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """One thing that is kept.

    Attributes:
        key: tells entries apart; a version has at most one of each.
        topic: what it is about; see :meth:`Ledger.changed`.
        record: JSON values.
        file: of its arrays, as :meth:`Change.store` named it.
        born: the version that it came with, or in which it became what it is.
    """

    key: str
    topic: str
    record: Mapping[str, Any]
    file: str | None = None
    born: int = field(default=0, compare=False)


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
        where, given = (_LIVE, ()) if version is None else (_AT_VERSION, (version, version))
        about, topics = ("", ()) if topic is None else (" AND topic = ?", (topic,))
        found = self._rows(f"{_select(where + about)} ORDER BY rowid", *given, *topics)
        return [_entry_of(row, self.folder) for row in found]

    def arrays(self, entry: Entry) -> dict[str, NDArray[Any]]:
        """The arrays of an entry; none where it has no file.

        Raises:
            StoreError: its file is missing, damaged, too large or of another kind.
        """
        return {} if entry.file is None else _read_arrays(self.folder / FILES, entry.file)

    @contextmanager
    def update(self, note: str) -> Iterator[Change]:
        """A change that becomes the next version when the block ends; none where it raises.

        No version is made where nothing changed. Other writers wait, readers do not.

        Raises:
            StoreError: full disk, a broken index, or a lock that another writer does not give up.
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
        with self._reads, database_errors(index, _INDEX):
            if self._reader is None:
                self._reader = open_to_read(index, _INDEX)
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
            _sweep(self.folder / FILES, {str(name) for (name,) in found})
            self._unswept = False

    def _close_version(self, writer: sqlite3.Connection, change: Change, note: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        writer.execute("INSERT INTO versions VALUES (?, ?, ?)", (change.number, now, note))
        oldest = change.number - self._kept + 1
        writer.execute("DELETE FROM versions WHERE number < ?", (oldest,))
        gone = writer.execute("DELETE FROM entries WHERE died <= ?", (oldest,)).rowcount
        self._unswept = self._unswept or gone > 0


class Change:
    """What an update does; made by :meth:`Ledger.update`.

    Attributes:
        number: of the version that it makes.
        is_any: whether anything is another than before.
    """

    def __init__(self, writer: sqlite3.Connection, folder: Path) -> None:
        self._writer, self._folder = writer, folder
        (newest,) = writer.execute("SELECT COALESCE(MAX(number), 0) FROM versions").fetchone()
        self.number = int(newest) + 1
        self.is_any = False

    def entries(self, topic: str | None = None) -> list[Entry]:
        """The entries as they are now, this change's own among them."""
        about, given = ("", ()) if topic is None else (" AND topic = ?", (topic,))
        found = self._writer.execute(f"{_select(_LIVE + about)} ORDER BY rowid", given)
        return [_entry_of(row, self._folder) for row in found]

    @property
    def count(self) -> int:
        """How many entries there are now."""
        return int(
            self._writer.execute(f"SELECT COUNT(*) FROM entries WHERE {_LIVE}").fetchone()[0]
        )

    def get(self, key: str) -> Entry | None:
        """The entry of a key as it is now."""
        row = self._writer.execute(_select(f"key = ? AND {_LIVE}"), (key,)).fetchone()
        return None if row is None else _entry_of(row, self._folder)

    def store(self, arrays: Arrays) -> str:
        """Writes arrays to a file for an entry's ``file``.

        Raises:
            StoreError: full disk, or arrays that are too large.
        """
        return _write_arrays(self._folder / FILES, arrays)

    def put(self, entry: Entry) -> None:
        """Keeps an entry, in place of the one with its key.

        Raises:
            StoreError: its record is too large.
        """
        known = self.get(entry.key)
        if known == entry:
            return
        text = json.dumps(entry.record, allow_nan=False)
        if len(text) > MOST_RECORD:
            raise StoreError(f"a record of {len(text)} characters; at most {MOST_RECORD} are kept")
        if known is not None:
            self._end(known)
        row = (entry.key, entry.topic, text, entry.file, self.number)
        self._writer.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, NULL)", row)
        self._touch(entry.topic)

    def drop(self, key: str) -> None:
        """Lets go of the entry with that key; nothing happens where there is none."""
        known = self.get(key)
        if known is not None:
            self._end(known)

    def restore(self, version: int) -> None:
        """Makes everything as it was in an earlier version.

        Raises:
            UsageError: no such version, or one that is forgotten.
        """
        self._check_known(version)
        rows = self._writer.execute(f"{_select(_AT_VERSION)} ORDER BY rowid", (version, version))
        earlier = [_entry_of(row, self._folder) for row in rows]
        for key in {one.key for one in self.entries()} - {one.key for one in earlier}:
            self.drop(key)
        for one in earlier:
            self.put(one)

    def _check_known(self, version: int) -> None:
        found = self._writer.execute("SELECT number FROM versions ORDER BY number")
        known = [int(number) for (number,) in found]
        if known[:1] == [1]:
            known = [0, *known]
        if version not in known:
            there = f"there are {known[0]} to {known[-1]}" if known else "nothing was kept yet"
            raise UsageError(f"{self._folder}: no version {version} to roll back to; {there}")

    def _end(self, entry: Entry) -> None:
        if entry.born == self.number:
            self._writer.execute("DELETE FROM entries WHERE key = ? AND died IS NULL", (entry.key,))
        else:
            ended = (self.number, entry.key)
            self._writer.execute(
                "UPDATE entries SET died = ? WHERE key = ? AND died IS NULL", ended
            )
        self._touch(entry.topic)

    def _touch(self, topic: str) -> None:
        self._writer.execute(
            "INSERT INTO topics VALUES (?, ?) ON CONFLICT DO UPDATE SET changed = excluded.changed",
            (topic, self.number),
        )
        self.is_any = True


def _select(where: str) -> str:
    """The rows that :func:`_entry_of` reads.

    One character more than is allowed shows that a record is too long, without reading it all.
    """
    record = f"substr(record, 1, {MOST_RECORD + 1})"
    return f"SELECT key, topic, {record}, file, born FROM entries WHERE {where}"


def _entry_of(row: tuple[Any, ...], folder: Path) -> Entry:
    """The entry of a row of :func:`_select`.

    Raises:
        StoreError: a record that is no JSON object.
    """
    key, topic, text, file, born = row
    record: Any = None
    if isinstance(text, str) and len(text) <= MOST_RECORD:
        with suppress(ValueError, RecursionError):
            record = json.loads(text)
    if not isinstance(record, dict) or not isinstance(born, int):
        raise StoreError(
            f"{folder / INDEX}: the entry {str(key)[:80]!r} is damaged; restore a copy, or move "
            "the folder away to begin anew"
        )
    return Entry(str(key), str(topic), record, None if file is None else str(file), born)


def _write_arrays(folder: Path, arrays: Arrays) -> str:
    """Writes the arrays as one file and returns its name: the SHA-256 of its content, in hex.

    Raises:
        StoreError: full disk or another error, or arrays that take more than ``MOST_BYTES``.
    """
    import numpy as np
    from safetensors.numpy import save

    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    if len(content) > MOST_BYTES:
        raise StoreError(f"{len(content)} bytes of arrays; a file holds at most {MOST_BYTES}")
    name = hashlib.sha256(content).hexdigest()
    write_file(folder / f"{name}.safetensors", content)
    return name


def _read_arrays(folder: Path, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file.

    Raises:
        StoreError: it is missing, too large, no plain file, or does not hold what it was written
            with.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not _NAME.fullmatch(name):
        raise StoreError(f"{folder}: {name[:80]!r} is no name of a file here; restore a copy")
    path = folder / f"{name}.safetensors"
    content = read_plain_file(path, MOST_BYTES)
    if hashlib.sha256(content).hexdigest() != name:
        raise StoreError(f"{path}: damaged, its content is not what was written; restore a copy")
    try:
        return load(content)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{path}: no safetensors file of plain arrays ({error})") from None


def _sweep(folder: Path, wanted: Collection[str]) -> int:
    """Deletes the files of writers that died and those that nothing refers to; how many went."""
    gone = 0
    with file_errors(folder):
        for path in folder.iterdir() if folder.is_dir() else ():
            is_ours = path.name.endswith(".tmp") or path.suffix == ".safetensors"
            if is_ours and path.stem not in wanted:
                with suppress(FileNotFoundError):
                    path.unlink()
                    gone += 1
    return gone
