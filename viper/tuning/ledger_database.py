"""The SQLite file of a :mod:`ledger <viper.tuning.ledger>`: how it is opened, its errors in a line.

Write-ahead log with ``synchronous=FULL``: what was committed survives the death of the process and
a power cut. Updates are rare, and files are deleted by what the last commit says.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from viper.errors import StoreError
from viper.tuning.ledger_files import file_errors

LEDGER_VERSION = 1
APPLICATION_ID = 0x5649504C  # "VIPL"

_TABLES = (
    "CREATE TABLE versions (number INTEGER PRIMARY KEY, made TEXT NOT NULL, note TEXT NOT NULL)",
    "CREATE TABLE entries (key TEXT NOT NULL, topic TEXT NOT NULL, record TEXT NOT NULL, "
    "file TEXT, born INTEGER NOT NULL, died INTEGER)",
    "CREATE UNIQUE INDEX live ON entries (key) WHERE died IS NULL",
    "CREATE INDEX by_topic ON entries (topic, born)",
    "CREATE TABLE topics (topic TEXT PRIMARY KEY, changed INTEGER NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {LEDGER_VERSION}",
)

_BUSY_TIMEOUT_S = 30.0
_PAUSE_S = 0.02
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_IN_USE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def open_to_write(path: Path) -> sqlite3.Connection:
    """The database for a writer, made where there is none; writers wait for each other.

    Raises:
        StoreError: full disk, a broken file, another program's, a newer version's.
    """
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with database_errors(path):
        connection = _connected(str(path), uri=False)
        try:
            _use_log(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            if _is_empty(connection):
                for statement in _TABLES:
                    connection.execute(statement)
            connection.execute("COMMIT")
            _check_ours(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """The database for reading only, also while another process writes; None where there is none.

    One whose making was cut off is none. In a folder that may not be written, a database at rest is
    read as it is now: what somebody else writes later is not seen.

    Raises:
        StoreError: a broken file, another program's, a newer version's.
    """
    if not path.exists():
        return None
    with database_errors(path):
        connection = _connected(f"{path.resolve().as_uri()}?{_read_mode(path)}", uri=True)
        try:
            if _is_empty(connection):
                connection.close()
                return None
            _check_ours(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def database_errors(path: Path) -> Iterator[None]:
    """Turns what SQLite refuses in the block into a :class:`StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise _problem(path, error) from None


def _connected(name: str, *, uri: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name, uri=uri, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _use_log(connection: sqlite3.Connection) -> None:
    """Switches to the write-ahead log; SQLite does not wait there for who switches just now."""
    until = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in _IN_USE or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_S)


def _is_empty(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA schema_version").fetchone()[0] == 0)


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path}: an SQLite file of another program; choose another --state")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > LEDGER_VERSION:
        raise StoreError(
            f"{path}: version {version} of the store, this viper reads up to {LEDGER_VERSION}; "
            "update viper, or choose another --state"
        )


def _problem(path: Path, error: sqlite3.Error) -> StoreError:
    code, name = _code(error), getattr(error, "sqlite_errorname", type(error).__name__)
    if code in _IN_USE:
        return StoreError(
            f"{path}: another process has been writing it for {_BUSY_TIMEOUT_S:g} s; try again"
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"{path}: the disk is full; free space and do it again, nothing was lost")
    if code in _BROKEN:
        return StoreError(
            f"{path}: damaged, or not an SQLite file; restore a copy, or move its folder away to "
            "begin anew"
        )
    return StoreError(f"{path}: {error} ({name})")


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _read_mode(path: Path) -> str:
    log = path.with_name(f"{path.name}-wal")
    resting = not log.exists() or log.stat().st_size == 0
    return "mode=ro" if os.access(path.parent, os.W_OK) or not resting else "immutable=1"
