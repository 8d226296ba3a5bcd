"""The SQLite file of a run: how it is opened, what it holds, its errors in one line.

Write-ahead log with ``synchronous=NORMAL``: what was committed survives the death of the
process at any moment; a power cut may lose the last rows (never the file), and ``--resume``
answers those samples again.

Nothing here opens the file but SQLite itself: closing any other handle of it in the same
process would drop SQLite's locks.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from viper.errors import StoreError
from viper.evaluate.runs.files import disk_full

STORE_VERSION = 1
APPLICATION_ID = 0x56495052  # "VIPR"

COLUMNS = {
    "sample_id": "TEXT NOT NULL",
    "seed": "INTEGER NOT NULL",
    "position": "INTEGER NOT NULL",
    "score": "REAL NOT NULL",
    "failure": "TEXT",
    "message": "TEXT",
    "prediction": "TEXT",
    "target": "TEXT NOT NULL",
    "text": "TEXT NOT NULL",
    "task": "TEXT NOT NULL",
    "options": "TEXT NOT NULL",
    "groups": "TEXT NOT NULL",
    "cluster": "TEXT NOT NULL",
    "files": "TEXT NOT NULL",
    "program": "TEXT",
    "marks": "TEXT NOT NULL",
    "details": "TEXT NOT NULL",
    "seconds": "REAL NOT NULL",
    "llm_calls": "INTEGER NOT NULL",
    "prompt_tokens": "INTEGER NOT NULL",
    "completion_tokens": "INTEGER NOT NULL",
    "model_calls": "INTEGER NOT NULL",
    "cost_usd": "REAL",
    "tools": "TEXT NOT NULL",
    "trace": "TEXT",
}
"""Columns of ``samples``; the trace comes last, so that reading the others skips its pages."""

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE samples (
    {", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())},
    PRIMARY KEY (sample_id, seed)
);
CREATE UNIQUE INDEX samples_in_order ON samples (position, seed);
CREATE INDEX samples_by_score ON samples (score, failure);
CREATE TABLE sessions (
    started TEXT NOT NULL, process INTEGER NOT NULL, revision TEXT, arguments TEXT NOT NULL
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {STORE_VERSION};
COMMIT;
"""

_BUSY_TIMEOUT_S = 30.0
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})


def open_to_write(path: Path) -> sqlite3.Connection:
    """The database for its one writer; a new one where there is none, an old one checked.

    Raises:
        StoreError: full disk, a broken file, another program's, a newer version's.
    """
    with database_errors(path):
        connection = sqlite3.connect(
            path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
    try:
        with database_errors(path):
            if connection.execute("PRAGMA schema_version").fetchone()[0] == 0:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                _create(connection)
            else:
                _check_ours(connection, path)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                    raise _broken(path)
    except StoreError:
        connection.close()
        raise
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """The database for reading only, also while another process writes.

    A run that was ended before its first sample has none: it reads as empty.

    Raises:
        StoreError: a broken file, another program's, a newer version's.
    """
    if not path.exists():
        return _empty()
    with database_errors(path):
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?{_read_mode(path)}",
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
    try:
        with database_errors(path):
            if connection.execute("PRAGMA schema_version").fetchone()[0] == 0:
                connection.close()
                return _empty()
            _check_ours(connection, path)
    except StoreError:
        connection.close()
        raise
    return connection


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turns what SQLite refuses in the block into a :class:`StoreError`; a constraint passes."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise _problem(path, error) from None


def _problem(path: Path, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code == sqlite3.SQLITE_FULL:
        return disk_full(path)
    if code in _BROKEN:
        return _broken(path)
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(
            f"the run cannot be stored or read ({path}: {name}): is the disk full, over a quota, "
            "or gone? then continue with --resume"
        )
    return StoreError(f"{path}: {error} ({name})")


def _broken(path: Path) -> StoreError:
    return StoreError(
        f"{path}: damaged, or not an SQLite file; restore a copy, or start anew with another --out"
    )


def _empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _create(connection)
    return connection


def _create(connection: sqlite3.Connection) -> None:
    try:
        connection.executescript(_SCHEMA)
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA application_id").fetchone()[0]
    if found != APPLICATION_ID:
        raise StoreError(f"{path}: an SQLite file of another program; choose another --out")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != STORE_VERSION:
        raise StoreError(
            f"{path}: version {version} of the store, this viper reads {STORE_VERSION}"
        )


def _read_mode(path: Path) -> str:
    """``immutable`` in a folder where SQLite cannot make the files that it shares with writers."""
    log = path.with_name(f"{path.name}-wal")
    resting = not log.exists() or log.stat().st_size == 0
    return "mode=ro" if os.access(path.parent, os.W_OK) or not resting else "immutable=1"
