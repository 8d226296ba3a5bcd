"""Creates, opens and checks SQLite files in one way, with one-line errors.

The files use a write-ahead log, so committed data survives the death of the process at any moment.
With ``synchronous=FULL`` it also survives a power cut. With ``NORMAL`` a power cut may lose the
last commits, never the file.

Only SQLite itself opens a file here: closing any other handle of it in the same process would drop
SQLite's locks. `SqliteStore` is the one kind of file without a format of its own: texts by key,
for caches of replies.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from viper.errors import StoreError
from viper.storage.files import disk_full, file_errors

# A writer waits so long for another one: a commit of many rows on a slow disk takes seconds, and a
# longer wait would look like a hang.
_BUSY_TIMEOUT_S = 30.0

# Bytes of a value: far above the trace of any run, and a file of zeros does not fill the memory.
_LONGEST = 64 << 20

# Between two tries where SQLite itself does not wait; short beside a commit.
_PAUSE_S = 0.02

# Largest file that is examined as a whole before it is written, in a few seconds. Damage of a
# larger one shows when its pages are read.
_EXAMINED_BYTES = 512 << 20

_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_IN_USE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


@dataclass(frozen=True)
class Format:
    """Content of a kind of SQLite file, and the advice for a file that cannot be used.

    Attributes:
        tables: the statements that create the tables of a new file.
        version: version of the tables.
        added: further such statements, which the version before lacks. Its files can be read, and
            get these tables when they are opened for a writer.
        application_id: distinguishes the files from those of other programs; 0 means no mark.
        synchronous: ``FULL`` survives a power cut, ``NORMAL`` may lose the last commits.
        repair: next step if a file is damaged.
        elsewhere: next step if a file belongs to another program.
    """

    tables: tuple[str, ...]
    version: int
    application_id: int = 0
    synchronous: Literal["NORMAL", "FULL"] = "FULL"
    repair: str = "delete it to begin anew"
    elsewhere: str = "delete it to begin anew"
    added: tuple[str, ...] = ()


def open_to_write(path: Path, form: Format, *, examine: bool = False) -> sqlite3.Connection:
    """Open a file for a writer and create it if it is missing. Writers wait for each other.

    Args:
        examine: check an existing file for damage, unless it is so large that this takes minutes.

    Raises:
        StoreError: full disk, a damaged file, or one of another program or version.
    """
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with database_errors(path, form):
        connection = _connect(str(path))
        try:
            if not _is_empty(connection):
                _check_format(connection, path, form)
            _use_log(connection)
            connection.execute(f"PRAGMA synchronous = {form.synchronous}")
            if _lacks_tables(connection, form):
                _create_tables(connection, form)
                _check_format(connection, path, form)
            examined = examine and path.stat().st_size <= _EXAMINED_BYTES
            if examined and connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise _broken(path, form)
        except BaseException:
            connection.close()
            raise
    return connection


def open_to_read(path: Path, form: Format) -> sqlite3.Connection | None:
    """Open a file for reading, also while another process writes; return None if it is missing.

    A file whose creation was interrupted counts as missing. If the folder is read-only, a database
    at rest is read in its present state, and later writes of others stay invisible.

    Raises:
        StoreError: a damaged file, or one of another program or version.
    """
    if not path.exists():
        return None
    log = path.with_name(f"{path.name}-wal")
    is_at_rest = not log.exists() or log.stat().st_size == 0
    # SQLite cannot create the files that it shares with writers in a read-only folder.
    mode = "immutable=1" if is_at_rest and not os.access(path.parent, os.W_OK) else "mode=ro"
    with database_errors(path, form):
        connection = _connect(f"{path.resolve().as_uri()}?{mode}")
        try:
            if _is_empty(connection):
                connection.close()
                return None
            _check_format(connection, path, form)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes as a whole, or nothing of it if the block fails."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def in_memory(form: Format) -> sqlite3.Connection:
    """Return an empty database without a file."""
    connection = _connect(":memory:")
    _create_tables(connection, form)
    return connection


@contextmanager
def database_errors(path: Path, form: Format) -> Iterator[None]:
    """Turn an SQLite error of the block into a :class:`StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise _problem(path, form, error) from None
    except UnicodeDecodeError:  # of a damaged schema
        raise _broken(path, form) from None


def _connect(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name,
        uri=name.startswith("file:"),
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    return connection


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; retry, because SQLite does not wait for another switch."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in _IN_USE or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


def _create_tables(connection: sqlite3.Connection, form: Format) -> None:
    with transaction(connection):
        if _lacks_tables(connection, form):  # unless another process has created them meanwhile
            is_empty = _is_empty(connection)
            for statement in (*form.tables, *form.added) if is_empty else form.added:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {form.application_id}")
            connection.execute(f"PRAGMA user_version = {form.version}")


def _lacks_tables(connection: sqlite3.Connection, form: Format) -> bool:
    return _is_empty(connection) or _version(connection) < form.version


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _is_empty(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA schema_version").fetchone()[0] == 0)


def _check_format(connection: sqlite3.Connection, path: Path, form: Format) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != form.application_id:
        raise StoreError(f"{path}: an SQLite file of another program; {form.elsewhere}")
    version = _version(connection)
    if version != form.version and not (form.added and version == form.version - 1):
        reads = f"{path}: version {version} of the store, this viper reads"
        if version > form.version:
            raise StoreError(f"{reads} up to {form.version}; update viper, or {form.elsewhere}")
        raise StoreError(f"{reads} {form.version}; {form.elsewhere}")
    # A view can run without end when it is read, and a trigger when a row is added.
    with closing(in_memory(form)) as expected:
        names = set(expected.execute(_OBJECTS))
    for kind, name, sql in set(connection.execute(_OBJECTS)) - names:
        if kind != "table" or (kind, name) not in {each[:2] for each in names} or _CODE in sql:
            raise StoreError(f"{path}: holds the {kind} {name[:60]!r} of another program")


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


# What a file defines, but for indexes that SQLite adds itself.
_OBJECTS = "SELECT type, name, upper(sql) FROM sqlite_master WHERE sql IS NOT NULL"
_CODE = "CREATE VIRTUAL"

# Version 0 is SQLite's default, so caches written before versions existed stay readable.
_RESPONSES = Format(("CREATE TABLE responses (key TEXT PRIMARY KEY, value TEXT)",), version=0)


class SqliteStore:
    """Texts by key in one file (WAL), so that a crash loses at most the last one; thread-safe.

    Args:
        path: the file; by default the texts last as long as this object.

    Raises:
        StoreError: the file cannot be created, read or written.
    """

    def __init__(self, path: Path | str = ":memory:") -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._db = open_to_write(self._path, _RESPONSES)

    def get(self, key: str) -> str | None:
        """Return the stored text, or None."""
        query = "SELECT value FROM responses WHERE key = ?"
        with self._lock, database_errors(self._path, _RESPONSES):
            row = self._db.execute(query, (key,)).fetchone()
        return None if row is None else row[0]

    def put(self, key: str, value: str) -> None:
        """Store the text; an existing key gets the new value."""
        with self._lock, database_errors(self._path, _RESPONSES):
            self._db.execute("INSERT OR REPLACE INTO responses VALUES (?, ?)", (key, value))

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        with self._lock:
            self._db.close()
