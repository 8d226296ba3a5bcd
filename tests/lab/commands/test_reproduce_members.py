"""Further processes of a reproduction, with fake models: what they tell, how they end."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.test_ace import ROOT
from tests.commands.test_bad_input import viper
from tests.evaluate.fake_backends import a_set
from viper.evaluate.engines.runner import Running
from viper.evaluate.row import Row
from viper_lab.commands.reproduce_members import Members, Told, _listen, members
from viper_lab.commands.reproduce_progress import Progress
from viper_lab.papers.lab import Step
from viper_lab.papers.plan import Plan

STEP = Step("+ ACE", "video", 1, 4, Path("ace"))


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A small reproduction; its processes find the fake models."""
    _, profile = a_set(tmp_path / "set", 2)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield [
        *("reproduce", "zero-shot", "--quick", "--samples", "2", "--seeds", "1", "--pool", "2"),
        *("--profile", str(profile), "--out", str(tmp_path / "out")),
    ]


def test_a_member_tells_what_it_answers() -> None:
    out = io.StringIO()
    told = Told(out)
    told.finished(Step("stored", "video", 0, 4, Path("stored")), [Row("a", 0, 1.0)])
    for _ in range(4):
        told.answered(STEP, Running(4))
    told.finished(STEP, [Row("a", 0, 1.0), Row("b", 0, 0.5)])
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert sum(event.get("answered", 0) for event in events) == 4
    assert events[-1] == {"step": ["+ ACE", "video", 1], "mean": 0.75}
    assert all(event["step"] == ["+ ACE", "video", 1] for event in events)


def test_what_a_library_prints_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    some = '{"step": ["+ ACE", "video", 1], "answered": 4}'
    told = '{"step": ["+ ACE", "video", 1], "mean": 0.5}'
    _listen(io.StringIO(f"downloading\n[1]\n{some}\n{told}\n"), Progress(Plan((STEP,), (0,))))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["downloading", "[1]"] and "+ ACE: video, seed 1, mean 0.500" in lines[2]


def test_what_it_tells_counts(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    progress = Progress(Plan((STEP,), (0,)))
    with members(1, arguments, progress) as beside:
        beside.wait()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(set(lines)) == 23 and "mean" in lines[0]
    code, out, err = viper(capsys, *arguments, "--json")
    assert code in (0, 1) and "20 cells and 3 mining runs" in err
    assert not [line for line in err.splitlines() if line.startswith("[")]  # all was stored
    assert {row["n"] for row in json.loads(out)["rows"]} == {2, 8}


def test_two_processes_answer_everything_once(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = viper(capsys, *arguments, "--processes", "2")
    lines = [line for line in err.splitlines() if line.startswith("[")]
    steps = {line.partition("] ")[2].partition(", mean")[0] for line in lines}
    assert code in (0, 1) and len(lines) == len(steps) == 23 and "[23/23]" in err


def test_a_member_ends_with_who_started_it(arguments: list[str]) -> None:
    line = [sys.executable, "-m", "viper", *arguments, "--member"]
    found = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    assert found.returncode == 130 and b'"mean"' not in found.stdout


def test_members_are_ended_with_the_block(arguments: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt), members(2, arguments, Progress(Plan((), ()))) as found:
        raise KeyboardInterrupt
    assert isinstance(found, Members)
    assert all(one.poll() is not None for one in found._running)
