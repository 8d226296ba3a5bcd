"""A versioned store under SIGKILL, and read by several processes while another writes."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.storage.store_writer import MEMBERS
from viper.storage.versioned import FILES, INDEX, VersionedStore

WRITER = Path(__file__).with_name("store_writer.py")
ROOT = WRITER.parents[2]
GROUPS = 10_000


def writer(folder: Path, groups: int = GROUPS) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.storage.store_writer", str(folder), str(groups)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def assert_whole(store: VersionedStore, version: int | None = None) -> int:
    """Every group has all its members, each its own arrays; how many groups there are."""
    entries = store.entries(version=version)
    groups: dict[int, int] = {}
    for one in entries:
        if one.kind == "counter":
            continue
        number = int(one.record["group"])
        groups[number] = groups.get(number, 0) + 1
        values = store.arrays(one)["values"]
        assert values.shape == (4, 8) and np.all(values.ravel()[1:] == number)
    assert set(groups.values()) <= {MEMBERS} and sorted(groups) == list(range(len(groups)))
    counts = [one.record["count"] for one in entries if one.kind == "counter"]
    assert counts == ([len(groups)] if groups else [])
    return len(groups)


@pytest.mark.timeout(120)
def test_kills_leave_whole_versions_and_lose_none_that_was_acknowledged(tmp_path: Path) -> None:
    folder, choice, told = tmp_path / "pool", random.Random(3), -1
    for turn in range(8):
        process = writer(folder)
        assert process.stdout is not None
        lines = choice.randrange(1, 12) if turn % 4 else 0  # every fourth while it opens the store
        heard = [process.stdout.readline().strip() for _ in range(1 + lines)]
        process.send_signal(signal.SIGKILL)
        heard += process.communicate()[0].split("\n")[:-1]
        told = max([told, *(int(line) for line in heard if line.isdigit())])
        store = VersionedStore(folder)
        assert assert_whole(store) >= told + 1
        store.close()
    assert told > 10
    finished = writer(folder, 2)
    assert finished.communicate()[1] == "" and finished.returncode == 0
    store = VersionedStore(folder)
    groups = assert_whole(store)
    files = {path.name for path in (folder / FILES).iterdir()}
    assert len(files) == groups * MEMBERS, "orphans are swept"
    connection = sqlite3.connect(folder / INDEX)
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    connection.close()
    middle = groups // 2
    store.roll_back(middle)
    assert assert_whole(store) == middle


@pytest.mark.timeout(120)
def test_files_of_a_writer_that_died_are_swept(tmp_path: Path) -> None:
    process = writer(tmp_path, 1)
    assert process.wait(60) == 0
    for name in (".abc.1.tmp", f"{'0' * 64}.safetensors"):
        (tmp_path / FILES / name).write_bytes(b"half")
    (tmp_path / FILES / "README").write_text("not ours")
    assert writer(tmp_path, 1).wait(60) == 0
    left = {path.name for path in (tmp_path / FILES).iterdir()}
    assert len(left) == 2 * MEMBERS + 1 and "README" in left
    assert assert_whole(VersionedStore(tmp_path)) == 2


@pytest.mark.timeout(120)
def test_two_writers_take_turns_while_a_third_process_reads(tmp_path: Path) -> None:
    processes = [writer(tmp_path, 20), writer(tmp_path, 20)]
    store, seen = VersionedStore(tmp_path), [0]
    while any(process.poll() is None for process in processes):
        seen.append(assert_whole(store))
    errors = [process.communicate()[1] for process in processes]
    assert errors == ["", ""] and seen == sorted(seen)
    assert assert_whole(store) == 40 and store.version == 40
    assert [assert_whole(store, version) for version in (1, 20, 40)] == [1, 20, 40]
