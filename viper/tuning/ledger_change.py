"""One update of a :mod:`ledger <viper.tuning.ledger>`: entries that come, change and go."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viper.errors import StoreError, UsageError
from viper.tuning.ledger_files import Arrays, write_arrays

INDEX, FILES = "index.db", "files"

MOST_RECORD = 1 << 20
"""Characters of an entry's record."""

LIVE = "died IS NULL"
AT_VERSION = "born <= ? AND (died IS NULL OR died > ?)"


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
        found = self._writer.execute(f"{select(LIVE + about)} ORDER BY rowid", given)
        return [entry_of(row, self._folder) for row in found]

    @property
    def count(self) -> int:
        """How many entries there are now."""
        return int(self._writer.execute(f"SELECT COUNT(*) FROM entries WHERE {LIVE}").fetchone()[0])

    def get(self, key: str) -> Entry | None:
        """The entry of a key as it is now."""
        row = self._writer.execute(select(f"key = ? AND {LIVE}"), (key,)).fetchone()
        return None if row is None else entry_of(row, self._folder)

    def store(self, arrays: Arrays) -> str:
        """Writes arrays to a file for an entry's ``file``.

        Raises:
            StoreError: full disk, or arrays that are too large.
        """
        return write_arrays(self._folder / FILES, arrays)

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
        rows = self._writer.execute(f"{select(AT_VERSION)} ORDER BY rowid", (version, version))
        earlier = [entry_of(row, self._folder) for row in rows]
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


def select(where: str) -> str:
    """The rows that :func:`entry_of` reads.

    One character more than is allowed shows that a record is too long, without reading it all.
    """
    record = f"substr(record, 1, {MOST_RECORD + 1})"
    return f"SELECT key, topic, {record}, file, born FROM entries WHERE {where}"


def entry_of(row: tuple[Any, ...], folder: Path) -> Entry:
    """The entry of a row of :func:`select`.

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
