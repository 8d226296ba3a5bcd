"""``viper lab reproduce zero-shot``: what it says on its way, and the whole of it in miniature."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.test_ace import ROOT
from tests.commands.test_bad_input import viper
from tests.evaluate.fake_backends import a_set
from viper_lab.papers.cell_runner import StoredRun
from viper_lab.papers.plan import Plan, Progress, watching

STEPS = tuple(
    StoredRun(name, "video", seed, 4, Path(name), mines=name.startswith("mining"))
    for seed in (0, 1)
    for name in ("mining abstract, main", "+ ACE")
)


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()


def test_the_plan_is_told_before_anything(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(Plan(STEPS, (4, 2, 0, 0))):
        assert lines_of(capsys) == [
            "2 cells and 2 mining runs, 16 answers; stored already: 1 of these runs, 6 answers"
        ]


def test_a_line_for_each_cell_with_the_time_that_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [100.0]
    watcher = Progress(Plan(STEPS, (4, 2, 0, 0)), clock=lambda: now[0])
    for _ in range(2):
        now[0] += 600
        watcher.tell(STEPS[1], None)
    watcher.tell(STEPS[1], 0.625)
    assert lines_of(capsys) == ["[2/4] + ACE: video, seed 0, mean 0.625; about 1 h 20 min left"]
    now[0] = 1312.0
    for _ in range(4):
        watcher.tell(STEPS[2], None)
    watcher.tell(STEPS[2], 0.5)
    assert lines_of(capsys)[0].endswith("seed 1, mean 0.500; about 13 min left")
    now[0] = 106.0
    watcher.tell(STEPS[3], None)
    watcher.tell(STEPS[3], 0.0)
    assert lines_of(capsys)[0].endswith("mean 0.000; less than a minute left")
    for _ in range(3):
        watcher.tell(STEPS[3], None)
    watcher.tell(STEPS[3], 0.0)
    assert lines_of(capsys)[0].endswith("nothing left to answer")


def test_a_bar_moves_with_each_answer(capsys: pytest.CaptureFixture[str]) -> None:
    moved: list[tuple[str, int]] = []

    def advance(remark: str, steps: int = 1) -> None:
        moved.append((remark, steps))

    watcher = Progress(Plan(STEPS, (0,) * 4), advance)
    watcher.tell(STEPS[1], None)
    assert moved == [("+ ACE, video, seed 0", 1)] and lines_of(capsys) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--data", "nope"], "unknown data set 'nope'"),
        (["--profile", "nope"], "unknown profile 'nope'"),
        (["--second", "nope"], "unknown profile 'nope'"),
        (["--split", "nope"], "unknown split"),
        (["--data", "world-a", "--shots-split", "val"], "world-a: 2 of 2 samples to mine from"),
        (["--data", "FILE", "--seeds", "2"], "2 seeds ask the same samples"),
        (["--data", "hub:lmms-lab/GQA"], "choose one of testdev_balanced, testdev_all"),
        (["--api", "vipergpt"], "--api is vipergpt, which every table compares with"),
        (["--api", "nope"], "unknown API 'nope'"),
        (["--strategy", "plan"], "--strategy plan: table 1 compares with"),
    ],
)
def test_a_wrong_call_is_one_line(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
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
    ]
    questions, _ = a_set(tmp_path / "set", 8)
    more = [str(questions) if each == "FILE" else each for each in more]
    code, out, err = viper(capsys, *given, "--out", str(tmp_path / "out"), *more)
    lines = [line for line in err.splitlines() if not line.endswith("…")]
    assert (code, out, len(lines)) == (2, "", 1), err
    assert said in lines[0]


@pytest.mark.parametrize("name", ["zero-shot", "clova", "avis", "dwim", "nlvr", "trust", "look"])
def test_every_reproduction_takes_an_api(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["lab", "reproduce", name, "--quick", "--out", str(tmp_path / "out"), "--api", "nope"]
    code, out, err = viper(capsys, *given)
    assert (code, out) == (2, "") and "unknown API 'nope'" in err.splitlines()[-1], err


@pytest.mark.models
@pytest.mark.timeout(600)
def test_the_whole_in_miniature(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["lab", "reproduce", "zero-shot", "--quick"]
    given += ["--samples", "2", "--seeds", "1", "--pool", "3",
             "--out", str(tmp_path), "--json"]  # fmt: skip
    code, out, err = viper(capsys, *given)
    found = json.loads(out)
    assert code in (0, 1) and (code == 1) is any(one["holds"] is False for one in found["claims"])
    lines = err.splitlines()
    # six cells for each family, two more for what grounds; one mining run each
    assert "20 cells and 3 mining runs" in lines[1] and "0 answers" in lines[1]
    assert sum(line.startswith("[") for line in lines) == 23 and "[23/23]" in err
    families = {row["family"] for row in found["rows"]}
    assert families >= {"referring", "question", "video"}
    assert {name for name in families if "," in name} == {
        f"{name}, world-a" for name in ("all", "referring", "question", "video")
    }
    assert set(found["rows"][0]) >= {"name", "family", "mean", "std", "n"}
    assert all(
        list(one) == ["claim", "holds", "reason", "gain", "interval"] for one in found["claims"]
    )
    assert found["facts"]["pool"] == 3 and "llm" in found["facts"]["models"]["main"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "runs", "mining", "banks", "locks", "programs.db", "report.json", "report.html",
    }  # fmt: skip
    again, out, err = viper(capsys, *given)
    assert again == code and "stored already: 23 of these runs" in err
    assert not any(line.startswith("[") for line in err.splitlines())
    assert json.loads(out)["rows"] == found["rows"]
    assert json.loads(out)["claims"] == found["claims"]


def test_help_imports_next_to_nothing() -> None:
    code = (
        "import sys; sys.modules.update(numpy=None, scipy=None, PIL=None, rich=None)\n"
        "from viper.cli import main\nmain(['reproduce', 'zero-shot', '--help'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "--pool" in done.stdout, done.stderr
