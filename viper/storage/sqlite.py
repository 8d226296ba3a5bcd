"""SQLite files: made, opened and checked in one way, their errors in one line.

Write-ahead log: what was committed survives the death of the process at any moment. With
``synchronous=FULL`` it survives a power cut, too; with ``NORMAL`` a power cut may lose the last
commits, never the file.

Nothing here opens a file but SQLite itself: closing any other handle of it in the same process
would drop SQLite's locks.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from viper.errors import StoreError
from viper.storage.files import disk_full, file_errors

_BUSY_TIMEOUT_S = 30.0
_PAUSE_S = 0.02
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_IN_USE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


@dataclass(frozen=True)
class Format:
    """What a kind of SQLite file holds, and what to do about one that cannot be used.

    Attributes:
        tables: the statements that make a new file.
        version: of the tables.
        application_id: tells the files from those of other programs; 0 where nothing does.
        synchronous: what survives a power cut.
        repair: the next step where a file is damaged.
        elsewhere: the next step where a file is not ours.
    """

    tables: tuple[str, ...]
    version: int
    application_id: int = 0
    synchronous: Literal["NORMAL", "FULL"] = "FULL"
    repair: str = "delete it to begin anew"
    elsewhere: str = "delete it to begin anew"


def open_to_write(path: Path, form: Format, *, examine: bool = False) -> sqlite3.Connection:
    """Open a file for a writer; make it where there is none. Writers wait for each other.

    Args:
        examine: look through all of an earlier file for damage.

    Raises:
        StoreError: full disk, a broken file, another program's, another version's.
    """
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with database_errors(path, form):
        connection = _connected(str(path))
        try:
            if not _is_empty(connection):
                _check_ours(connection, path, form)
            _use_log(connection)
            connection.execute(f"PRAGMA synchronous = {form.synchronous}")
            if _is_empty(connection):
                _make(connection, form)
                _check_ours(connection, path, form)
            elif examine and connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise _broken(path, form)
        except BaseException:
            connection.close()
            raise
    return connection


def open_to_read(path: Path, form: Format) -> sqlite3.Connection | None:
    """Open a file for reading only, also while another process writes; None where there is none.

    One whose making was cut off is none. In a folder that may not be written, a database at rest is
    read as it is now: what somebody else writes later is not seen.

    Raises:
        StoreError: a broken file, another program's, another version's.
    """
    if not path.exists():
        return None
    with database_errors(path, form):
        connection = _connected(f"{path.resolve().as_uri()}?{_read_mode(path)}")
        try:
            if _is_empty(connection):
                connection.close()
                return None
            _check_ours(connection, path, form)
        except BaseException:
            connection.close()
            raise
    return connection


def in_memory(form: Format) -> sqlite3.Connection:
    """Return an empty database without a file."""
    connection = _connected(":memory:")
    _make(connection, form)
    return connection


@contextmanager
def database_errors(path: Path, form: Format) -> Iterator[None]:
    """Turn what SQLite refuses in the block into a :class:`StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise _problem(path, form, error) from None


def _connected(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name,
        uri=name.startswith("file:"),
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite does not wait there for who switches just now."""
    until = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in _IN_USE or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_S)


def _make(connection: sqlite3.Connection, form: Format) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if _is_empty(connection):
        for statement in form.tables:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {form.application_id}")
        connection.execute(f"PRAGMA user_version = {form.version}")
    connection.execute("COMMIT")


def _is_empty(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA schema_version").fetchone()[0] == 0)


def _check_ours(connection: sqlite3.Connection, path: Path, form: Format) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != form.application_id:
        raise StoreError(f"{path}: an SQLite file of another program; {form.elsewhere}")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != form.version:
        reads = f"{path}: version {version} of the store, this viper reads"
        if version > form.version:
            raise StoreError(f"{reads} up to {form.version}; update viper, or {form.elsewhere}")
        raise StoreError(f"{reads} {form.version}; {form.elsewhere}")


def _problem(path: Path, form: Format, error: sqlite3.Error) -> StoreError:
    code, name = _code(error), getattr(error, "sqlite_errorname", type(error).__name__)
    if code in _IN_USE:
        return StoreError(
            f"{path}: another process has been writing it for {_BUSY_TIMEOUT_S:g} s; try again"
        )
    if code == sqlite3.SQLITE_FULL:
        return disk_full(path)
    if code in _BROKEN:
        return _broken(path, form)
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(
            f"{path}: cannot be stored or read ({name}): is the disk full, over a quota, or gone? "
            "then do it again, or continue with --resume"
        )
    return StoreError(f"{path}: {error} ({name})")


def _broken(path: Path, form: Format) -> StoreError:
    return StoreError(f"{path}: damaged, or not an SQLite file; {form.repair}")


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _read_mode(path: Path) -> str:
    """``immutable`` in a folder where SQLite cannot make the files that it shares with writers."""
    log = path.with_name(f"{path.name}-wal")
    resting = not log.exists() or log.stat().st_size == 0
    return "mode=ro" if os.access(path.parent, os.W_OK) or not resting else "immutable=1"
