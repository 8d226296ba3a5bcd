"""SQLite files: made once, checked before anything is changed, errors in one line."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from viper.errors import StoreError
from viper.storage.sqlite import (
    Format,
    SqliteStore,
    database_errors,
    in_memory,
    open_to_read,
    open_to_write,
)

FORM = Format(
    ("CREATE TABLE things (name TEXT PRIMARY KEY)",),
    version=2,
    application_id=77,
    repair="restore a copy",
    elsewhere="choose another --out",
)


def test_many_writers_make_one_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "things.db"

    def write(number: int) -> None:
        with closing(open_to_write(path, FORM)) as opened:
            opened.execute("INSERT INTO things VALUES (?)", (str(number),))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(16)))
    opened = open_to_read(path, FORM)
    assert opened is not None and opened.execute("SELECT COUNT(*) FROM things").fetchone() == (16,)
    with pytest.raises(StoreError, match="readonly"), database_errors(path, FORM):
        opened.execute("DELETE FROM things")
    opened.close()


def test_what_is_not_there_reads_as_none(tmp_path: Path) -> None:
    assert open_to_read(tmp_path / "none.db", FORM) is None
    (tmp_path / "empty.db").touch()
    assert open_to_read(tmp_path / "empty.db", FORM) is None
    assert in_memory(FORM).execute("SELECT * FROM things").fetchall() == []


def test_a_file_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (name TEXT)")
    before = path.read_bytes()
    for use in (open_to_read, open_to_write):
        with pytest.raises(StoreError, match=r"of another program; choose another --out"):
            use(path, FORM)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("version", "advice"),
    [(1, "reads 2; choose another"), (3, "up to 2; update viper, or choose another")],
)
def test_another_version_says_what_to_do(tmp_path: Path, version: int, advice: str) -> None:
    path = tmp_path / "things.db"
    open_to_write(path, replace(FORM, version=version)).close()
    with pytest.raises(StoreError, match=f"version {version} of the store, .*{advice} --out"):
        open_to_write(path, FORM)


def test_a_broken_cache_of_replies_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "llm-cache.db"
    path.write_bytes(b"no database" * 999)
    with pytest.raises(StoreError, match="llm-cache.db: damaged, .*; delete it to begin anew"):
        SqliteStore(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE things; CREATE VIEW things AS WITH RECURSIVE n(name) AS "
        "(SELECT 1 UNION ALL SELECT name + 1 FROM n) SELECT name FROM n",
        "CREATE TRIGGER quiet AFTER INSERT ON things BEGIN DELETE FROM things; END",
        "CREATE TABLE more (name TEXT)",
        "DROP TABLE things; CREATE VIRTUAL TABLE things USING fts5(name)",
    ],
)
@pytest.mark.parametrize("opened", [open_to_read, open_to_write])
def test_a_file_with_other_tables_views_or_triggers_is_refused(
    statement: str, opened: Callable[..., sqlite3.Connection], tmp_path: Path
) -> None:
    path = tmp_path / "things.db"
    with closing(open_to_write(path, FORM)) as made:
        made.executescript(statement)
    with pytest.raises(StoreError, match="of another program"):
        opened(path, FORM)


def test_a_value_of_zeros_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "things.db"
    with closing(open_to_write(path, FORM)) as made, pytest.raises(sqlite3.Error, match="too big"):
        made.execute("INSERT INTO things VALUES (zeroblob(500000000))")
