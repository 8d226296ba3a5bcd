"""Further processes of a reproduction, with fake models: what they tell, how they end."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from multiprocessing import active_children
from pathlib import Path

import pytest

from tests import forked
from tests.commands.test_ace import ROOT
from tests.commands.test_bad_input import viper
from tests.evaluate.fake_backends import a_set
from tests.lab.papers.fake_study import FilePart, Questions
from viper_lab.papers.cell_runner import Cell, CellRunner
from viper_lab.papers.parts import Part
from viper_lab.papers.plan import Plan, Progress, plan_of
from viper_lab.papers.tables import cells_of
from viper_lab.papers.workers import workers
from viper_lab.papers.zero_shot import Ablation

PAPER = Ablation()


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A small reproduction; its processes find the fake models."""
    _, profile = a_set(tmp_path / "set", 2)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield [
        *[
            "lab",
            "reproduce",
            "zero-shot",
            "--quick",
            "--samples",
            "2",
            "--seeds",
            "1",
            "--pool",
            "2",
        ],
        *("--profile", str(profile), "--out", str(tmp_path / "out")),
    ]


class FakeJob:
    """Opens the runner of a small study in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def runner(self) -> AbstractContextManager[CellRunner]:
        return Questions(self._folder).runner(seeds=(0, 1))

    def study(self, runner: CellRunner) -> Asked:
        return Asked(Questions(self._folder).part)


class Asked:
    def __init__(self, part: FilePart) -> None:
        self._part = part

    def cells(self) -> list[tuple[Cell, Part]]:
        return cells_of([PAPER.table_2], [self._part])


def test_what_it_tells_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = FakeJob(tmp_path)
    with job.runner() as runner:
        plan = plan_of(runner, job.study(runner).cells())
    with workers(1, job, Progress(plan)) as wait:
        wait()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(set(lines)) == len(plan.steps) == 12
    assert "mean" in lines[0] and "[12/12]" in lines[-1]
    with job.runner() as runner:
        assert plan_of(runner, job.study(runner).cells()).missing == 0


def test_two_processes_answer_everything_once(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = viper(capsys, *arguments, "--processes", "2")
    lines = [line for line in err.splitlines() if line.startswith("[")]
    steps = {line.partition("] ")[2].partition(", mean")[0] for line in lines}
    assert code in (0, 1) and len(lines) == len(steps) == 23 and "[23/23]" in err


def test_a_worker_ends_with_who_started_it(arguments: list[str]) -> None:
    """What it inherits from them, standard error, is closed when the last of them has ended."""
    line = forked.viper(*arguments, "--processes", "2")
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as found:
        assert found.stderr is not None
        while not found.stderr.readline().startswith("["):
            assert found.poll() is None
        found.kill()
        found.communicate(timeout=120)


def test_workers_are_ended_with_the_block(tmp_path: Path) -> None:
    began = active_children()
    job = FakeJob(tmp_path)
    with pytest.raises(KeyboardInterrupt), workers(2, job, Progress(Plan((), ()))):
        running = [one for one in active_children() if one not in began]
        raise KeyboardInterrupt
    assert len(running) == 2 and not any(one.is_alive() for one in running)
