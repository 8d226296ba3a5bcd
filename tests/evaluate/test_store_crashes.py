"""The run store under SIGKILL, full disks and several processes."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from run_samples import a_manifest, a_row, a_trace

from viper.errors import StoreError
from viper.evaluate.runs.store import RunStore

WRITER = Path(__file__).with_name("store_writer.py")
ROOT = WRITER.parents[2]
ROWS = 3_000
KILLS = 8


def writer(folder: Path, rows: int, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), str(rows), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{WRITER.parent}"},
    )


def until_open(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None and process.stdout.readline() == "open\n"


def integrity(folder: Path) -> str:
    connection = sqlite3.connect(folder / "samples.db")
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()


@pytest.mark.timeout(170)
def test_kills_lose_no_acknowledged_row_and_double_none(tmp_path: Path) -> None:
    folder, acknowledged = tmp_path / "run", []
    choice = random.Random(7)
    for turn in range(KILLS):
        process = writer(folder, ROWS)
        assert process.stdout is not None
        if turn % 4:  # every fourth is killed before or while it opens the store
            until_open(process)
            for _ in range(choice.randrange(60)):
                acknowledged.append(process.stdout.readline().strip())
        else:
            with_luck = choice.uniform(0.05, 0.4)
            with suppress(subprocess.TimeoutExpired):
                process.wait(with_luck)
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0].split("\n")
        acknowledged += [line for line in rest[:-1] if line and line != "open"]
        if (folder / "run.json").exists():
            with RunStore.read(folder) as store:
                assert {key for key, _ in store.done()} >= set(filter(None, acknowledged))
    assert len(set(acknowledged)) == len(acknowledged) > 100
    process = writer(folder, ROWS)
    assert process.wait(100) == 0 and integrity(folder) == "ok"
    with RunStore.read(folder) as store:
        assert [row.sample_id for row in store.rows()] == [f"s{n:05d}" for n in range(ROWS)]
        assert all(store.trace(row.sample_id, 0) for row in store.worst(50))


def test_a_second_writer_is_told_which_process_writes(tmp_path: Path) -> None:
    process = writer(tmp_path, ROWS)
    try:
        until_open(process)
        with pytest.raises(StoreError, match=f"being written by process {process.pid}$"):
            RunStore.resume(tmp_path, a_manifest())
    finally:
        process.kill()
        process.communicate()
    with RunStore.resume(tmp_path, a_manifest()) as store:
        with pytest.raises(StoreError, match=f"being written by process {os.getpid()}$"):
            RunStore.resume(tmp_path, a_manifest())
        second = writer(tmp_path, ROWS)
        assert second.wait(60) == 1
        assert second.stderr is not None
        assert f"being written by process {os.getpid()}" in second.stderr.read()
        number = len(store.done())
        store.add(number, a_row(number))


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    """The sandbox forks children that may outlive a killed parent."""
    store = RunStore.create(tmp_path, a_manifest())
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    os.close(read_end)
    try:
        store.close()
        RunStore.resume(tmp_path, a_manifest()).close()
    finally:
        os.close(write_end)
        os.waitpid(child, 0)


def test_reading_while_another_process_writes(tmp_path: Path) -> None:
    process = writer(tmp_path, ROWS)
    try:
        until_open(process)
        seen = [0]
        with RunStore.read(tmp_path) as store:
            while seen[-1] < 100:
                seen.append(sum(1 for _ in store.rows()))
        assert seen == sorted(seen)
    finally:
        process.kill()
        process.communicate()


def test_a_database_that_may_not_grow_refuses_the_row_and_nothing_else(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, a_manifest()) as store:
        store._connection.execute("PRAGMA max_page_count = 40")
        stored = 0
        with pytest.raises(StoreError, match="disk is full .*continue with --resume") as caught:
            for number in range(1_000):
                store.add(number, a_row(number), a_trace(a_row(number)))
                stored += 1
        assert "\n" not in str(caught.value) and len(store.done()) == stored > 10
        store._connection.execute("PRAGMA max_page_count = 4000")
        store.add(stored, a_row(stored))
    assert integrity(tmp_path) == "ok"


@pytest.mark.parametrize("most_bytes", ["100", "20000", "300000"])
def test_a_bound_on_files_ends_the_writer_with_one_line(tmp_path: Path, most_bytes: str) -> None:
    folder = tmp_path / "run"
    process = writer(folder, ROWS, most_bytes)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 1 and len(error.splitlines()) == 1, error
    assert "continue with --resume" in error
    acknowledged = {line for line in out.split("\n") if line.startswith("s")}
    with RunStore.resume(folder, a_manifest()) as store:
        assert {key for key, _ in store.done()} == acknowledged
    assert integrity(folder) == "ok"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
def test_a_full_disk_ends_the_writer_with_one_line_and_resumes(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode()}")
    try:
        process = writer(mount / "run", ROWS)
        out, error = process.communicate(timeout=60)
        assert process.returncode == 1 and len(error.splitlines()) == 1, error
        assert "disk is full" in error and "continue with --resume" in error
        acknowledged = {line for line in out.split("\n") if line.startswith("s")}
        with RunStore.read(mount / "run") as store:
            assert {key for key, _ in store.done()} == acknowledged
        subprocess.run(["mount", "-o", "remount,size=8m", str(mount)], check=True)
        with RunStore.resume(mount / "run", a_manifest()) as store:
            assert {key for key, _ in store.done()} == acknowledged
            store.add(ROWS, a_row(ROWS))
    finally:
        subprocess.run(["umount", str(mount)], check=False)
