"""Whole versions: what they hold, going back, forgetting, and files that come from anywhere."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest

from viper.errors import StoreError, UsageError
from viper.storage.versioned import FILES, INDEX, Entry, VersionedStore


def put(store: VersionedStore, key: str, value: object, kind: str = "t") -> int:
    with store.update(f"put {key}") as change:
        change.put(Entry(key, kind, {"value": value}))
    return store.version


def values(store: VersionedStore, version: int | None = None) -> dict[str, object]:
    return {one.key: one.record["value"] for one in store.entries(version=version)}


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    store = VersionedStore(tmp_path / "state" / "pool")
    assert (store.version, store.entries(), store.versions()) == (0, [], [])
    assert store.changed("t") == 0
    with pytest.raises(UsageError, match="nothing was kept yet"):
        store.roll_back(1)
    assert not (tmp_path / "state").exists()


def test_every_update_is_a_version_that_can_be_read(tmp_path: Path) -> None:
    store = VersionedStore(tmp_path)
    assert [put(store, "a", 1), put(store, "b", 2), put(store, "a", 3)] == [1, 2, 3]
    assert put(store, "a", 3) == 3, "nothing changed"
    with store.update("drop") as change:
        change.drop("b")
        change.drop("absent")
    assert [values(store, n) for n in range(5)] == [
        {}, {"a": 1}, {"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 3},
    ]  # fmt: skip
    assert values(store) == {"a": 3}
    assert [one.note for one in store.versions()] == ["put a", "put b", "put a", "drop"]


def test_rolling_back_is_a_version_too(tmp_path: Path) -> None:
    store = VersionedStore(tmp_path)
    for key, value in (("a", 1), ("b", 2), ("a", 3)):
        put(store, key, value)
    assert store.roll_back(1) == 4 and values(store) == {"a": 1}
    assert store.roll_back(3) == 5 and values(store) == {"a": 3, "b": 2}
    assert store.roll_back(5) == 5 and store.version == 5
    assert store.roll_back(0) == 6 and values(store) == {}
    with pytest.raises(UsageError, match="no version 9 to roll back to; there are 0 to 6"):
        store.roll_back(9)


def test_an_update_that_raises_leaves_nothing(tmp_path: Path) -> None:
    store = VersionedStore(tmp_path)
    put(store, "a", 1)
    with pytest.raises(RuntimeError), store.update("fails") as change:
        change.put(Entry("a", "t", {"value": 2}, change.store({"x": np.ones(3)})))
        change.drop("a")
        raise RuntimeError
    assert store.version == 1 and values(store) == {"a": 1}
    assert len(list((tmp_path / FILES).iterdir())) == 1
    other = VersionedStore(tmp_path)
    put(other, "b", 1)
    assert not list((tmp_path / FILES).iterdir()), "the next writer sweeps"


def test_a_topic_tells_when_it_changed_and_never_says_a_number_twice(tmp_path: Path) -> None:
    store = VersionedStore(tmp_path, kept_versions=2)
    put(store, "a", 1, "cats")
    put(store, "b", 1, "dogs")
    put(store, "c", 1, "cats")
    assert (store.changed("cats"), store.changed("dogs")) == (3, 2)
    with store.update("drop") as change:
        change.drop("c")
    for number in range(5):
        put(store, "b", number + 2, "dogs")
    assert (store.changed("cats"), store.changed("dogs")) == (4, 9)


def test_old_versions_are_forgotten_with_their_files(tmp_path: Path) -> None:
    store = VersionedStore(tmp_path, kept_versions=3)
    for number in range(6):
        with store.update("one") as change:
            file = change.store({"x": np.full(4, number, np.float32)})
            change.put(Entry("a", "t", {"value": number}, file))
    assert [one.number for one in store.versions()] == [4, 5, 6]
    assert [values(store, number) for number in (4, 5, 6)] == [{"a": 3}, {"a": 4}, {"a": 5}]
    with pytest.raises(UsageError, match="there are 4 to 6"):
        store.roll_back(2)
    put(VersionedStore(tmp_path, kept_versions=3), "b", 0)
    assert len(list((tmp_path / FILES).iterdir())) == 3, "the next writer sweeps"


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    store = VersionedStore(tmp_path)
    given = {"x": np.arange(6, dtype=np.float32).reshape(2, 3).T, "y": np.array([1, 2])}
    with store.update("arrays") as change:
        change.put(Entry("a", "t", {}, change.store(given)))
        change.put(Entry("b", "t", {}))
    first, second = store.entries()
    found = store.arrays(first)
    assert all(np.array_equal(found[name], given[name]) for name in given)
    assert store.arrays(second) == {}


def test_threads_read_whole_versions_while_one_writes(tmp_path: Path) -> None:
    store, done, seen = VersionedStore(tmp_path), threading.Event(), []

    def read() -> None:
        while not done.is_set():
            seen.append(len({one.record["value"] for one in store.entries()}))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(30):
        with store.update("three") as change:
            for key in "abc":
                change.put(Entry(key, "t", {"value": number}))
    done.set()
    for thread in threads:
        thread.join()
    assert set(seen) <= {0, 1} and 1 in seen


def test_a_newer_store_says_so(tmp_path: Path) -> None:
    put(VersionedStore(tmp_path), "a", 1)
    connection = sqlite3.connect(tmp_path / INDEX)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    for use in (lambda one: one.version, lambda one: put(one, "b", 1)):
        with pytest.raises(StoreError, match="version 7 of the store.* up to 1; update viper"):
            use(VersionedStore(tmp_path))


@pytest.mark.parametrize("content", [b"", b"hello " * 2000])
def test_an_index_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / INDEX).write_bytes(content)
    if content:
        with pytest.raises(StoreError, match="damaged, or not an SQLite file"):
            VersionedStore(tmp_path).entries()
    else:
        assert VersionedStore(tmp_path).version == 0
        assert put(VersionedStore(tmp_path), "a", 1) == 1


def test_an_index_of_another_program(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / INDEX)
    connection.execute("CREATE TABLE x (y)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        VersionedStore(tmp_path).entries()


@pytest.mark.parametrize("record", ["[1]", "{", "[" * 5_000, "x" * (1 << 20 | 1)])
def test_a_record_that_is_none(tmp_path: Path, record: str) -> None:
    put(VersionedStore(tmp_path), "a", 1)
    connection = sqlite3.connect(tmp_path / INDEX)
    connection.execute("UPDATE entries SET record = ?", (record,))
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="the entry 'a' is damaged"):
        VersionedStore(tmp_path).entries()


def stored(folder: Path) -> tuple[VersionedStore, Entry, Path]:
    store = VersionedStore(folder)
    with store.update("arrays") as change:
        file = change.store({"x": np.ones((2, 2), np.float32)})
        change.put(Entry("a", "t", {}, file))
    return store, store.entries()[0], folder / FILES / f"{file}.safetensors"


def test_a_file_that_is_not_what_was_written(tmp_path: Path) -> None:
    store, entry, path = stored(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"\x01")
    with pytest.raises(StoreError, match="not what was written"):
        store.arrays(entry)
    path.write_bytes(b"0" * ((16 << 20) + 1))
    with pytest.raises(StoreError, match="more than 16777216 bytes"):
        store.arrays(entry)
    path.unlink()
    with pytest.raises(StoreError, match="No such file"):
        store.arrays(entry)
    path.symlink_to("/dev/zero")
    with pytest.raises(StoreError):
        store.arrays(entry)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreError, match="not a plain file"):
        store.arrays(entry)


def test_a_name_that_leads_elsewhere(tmp_path: Path) -> None:
    store, entry, _ = stored(tmp_path)
    with pytest.raises(StoreError, match="no name of a file here"):
        store.arrays(Entry("a", "t", {}, "../../secret"))
