"""Storage of texts by text keys, in memory or in an SQLite file, for caches of replies."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from viper.storage.sqlite import Format, database_errors, open_to_write

_RESPONSES = Format(("CREATE TABLE responses (key TEXT PRIMARY KEY, value TEXT)",), version=0)


class ResponseStore(Protocol):
    """Texts by key; safe to call from several threads."""

    def get(self, key: str) -> str | None:
        """Return the stored text, or None."""

    def put(self, key: str, value: str) -> None:
        """Store the text; an existing key gets the new value."""


class MemoryStore:
    """Stores responses for the life of the process."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        return self._entries.get(key)

    def put(self, key: str, value: str) -> None:
        self._entries[key] = value


class SqliteStore:
    """Stores responses in one file (WAL), so that a crash loses at most the last one.

    Raises:
        StoreError: the file cannot be created, read or written.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._db = open_to_write(self._path, _RESPONSES)

    def get(self, key: str) -> str | None:
        query = "SELECT value FROM responses WHERE key = ?"
        with self._lock, database_errors(self._path, _RESPONSES):
            row = self._db.execute(query, (key,)).fetchone()
        return None if row is None else row[0]

    def put(self, key: str, value: str) -> None:
        with self._lock, database_errors(self._path, _RESPONSES):
            self._db.execute("INSERT OR REPLACE INTO responses VALUES (?, ?)", (key, value))

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        with self._lock:
            self._db.close()
