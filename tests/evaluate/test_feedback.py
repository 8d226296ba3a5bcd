"""Remarks of people: kept whole, read back, asked for in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands.test_bad_input import refused, viper
from tests.evaluate.run_samples import a_manifest, a_row
from viper.errors import StoreError, UsageError
from viper.evaluate.runs.feedback import FEEDBACK, LONGEST, Feedback, add_feedback, read_feedback
from viper.evaluate.runs.store import RunStore


def test_what_was_said_is_read_back(tmp_path: Path) -> None:
    assert read_feedback(tmp_path) == []
    said = [
        Feedback("a", 0, "red"),
        Feedback(
            "a", 1, comment="the shadow,\nnot the ball \ud800".encode("utf-8", "replace").decode()
        ),
        Feedback("b", 0, [1.0, 2.0, 3.0, 4.0], "here"),
    ]
    for one in said:
        add_feedback(tmp_path, one)
    assert read_feedback(tmp_path) == said


def test_nothing_and_too_much_are_refused() -> None:
    with pytest.raises(UsageError, match="needs the right answer, a comment, or both"):
        Feedback("a", comment="  ")
    with pytest.raises(UsageError, match="the comment has 4,001 characters; at most 4,000"):
        Feedback("a", comment="x" * (LONGEST + 1))


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: add_feedback(tmp_path, Feedback(f"s{n}", 0, n)), range(200)))
    assert sorted(one.answer for one in read_feedback(tmp_path)) == list(range(200))


def test_a_line_that_was_cut_loses_itself_alone(tmp_path: Path) -> None:
    add_feedback(tmp_path, Feedback("a", 0, "red"))
    file = tmp_path / FEEDBACK
    file.write_bytes(file.read_bytes() + b'{"sample_id": "b", "se')
    assert [one.sample_id for one in read_feedback(tmp_path)] == ["a"]
    add_feedback(tmp_path, Feedback("c", 0, "blue"))
    assert [one.sample_id for one in read_feedback(tmp_path)] == ["a", "c"]


def test_a_line_of_something_else_is_named(tmp_path: Path) -> None:
    add_feedback(tmp_path, Feedback("a", 0, "red"))
    with (tmp_path / FEEDBACK).open("a") as file:
        file.write('{"other": 1}\n')
    add_feedback(tmp_path, Feedback("b", 0, "red"))
    with pytest.raises(StoreError, match=r"feedback\.jsonl:2: not a remark of viper"):
        read_feedback(tmp_path)


def test_a_killed_writer_leaves_whole_lines(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from viper.evaluate.runs.feedback import Feedback, add_feedback\n"
        "for n in range(10**6):\n"
        "    add_feedback(Path(sys.argv[1]), Feedback(f's{n}', 0, n)); print(n, flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    acknowledged = 0
    for line in process.stdout:
        acknowledged = int(line)
        if acknowledged == 40:
            os.kill(process.pid, signal.SIGKILL)
            break
    process.wait()
    found = [one.answer for one in read_feedback(tmp_path)]
    assert found[: acknowledged + 1] == list(range(acknowledged + 1))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with RunStore.create(tmp_path / "run", a_manifest(metric="accuracy")) as store:
        store.add(0, a_row(0))
        store.add(1, replace(a_row(1), task="ground", target=[0, 0, 9, 9]))
        store.add(2, replace(a_row(2), task="choice", options=("stops", "falls"), target=1))
    return tmp_path / "run"


def test_the_command_notes_and_shows(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ("s00000", "--answer", "violet", "--comment", "in the light"),
        ("s00001", "--answer", "1, 2, 30, 40"),
        ("s00002", "--answer", "falls"),
        ("s00002", "--answer", "0"),
    ):
        code, out, err = viper(capsys, "learn", "feedback", str(run), *arguments)
        assert code == 0 and out == "" and err == f"noted for {arguments[0]}\n"
    code, out, _ = viper(capsys, "learn", "feedback", str(run), "--json")
    said = [json.loads(line) for line in out.splitlines()]
    assert [one["answer"] for one in said] == ["violet", [1, 2, 30, 40], 1, 0]
    code, out, _ = viper(capsys, "learn", "feedback", str(run), "s00000")
    assert code == 0 and "in the light" in out and "s00002" not in out


def test_the_command_refuses_what_makes_no_sense(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(run)
    assert "which sample?" in refused(capsys, "learn", "feedback", folder, "--comment", "no")
    line = refused(capsys, "learn", "feedback", folder, "s000001", "--comment", "no")
    assert "no sample 's000001' under seed 0; did you mean s00001?" in line
    assert "under seed 3" in refused(capsys, "learn", "feedback", folder, "s00000", "--seed", "3",
                                     "--answer", "x")  # fmt: skip
    assert "expected a box" in refused(
        capsys, "learn", "feedback", folder, "s00001", "--answer", "9,9,1,1"
    )
    line = refused(capsys, "learn", "feedback", folder, "s00002", "--answer", "flies")
    assert "expected one of stops, falls" in line
    assert not (run / FEEDBACK).exists()
    assert "not the folder of a run" in refused(capsys, "learn", "feedback", str(run.parent))
