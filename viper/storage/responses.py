"""Text under a text key, in memory or in an SQLite file: what caches of replies are kept in."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from viper.storage.sqlite import Format, database_errors, open_to_write

_RESPONSES = Format(("CREATE TABLE responses (key TEXT PRIMARY KEY, value TEXT)",), version=0)


class ResponseStore(Protocol):
    """Text under a text key; safe to call from several threads."""

    def get(self, key: str) -> str | None:
        """Return the stored text, or None."""
        ...

    def put(self, key: str, value: str) -> None:
        """Store the text; a key that is already there keeps its new value."""
        ...


class MemoryStore:
    """Keeps responses for the life of the process."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        return self._entries.get(key)

    def put(self, key: str, value: str) -> None:
        self._entries[key] = value


class SqliteStore:
    """Keeps responses in one file (WAL), so that a crash loses at most the last one.

    Raises:
        StoreError: the file cannot be made, read or written.
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
