"""``viper fit``, ``ace mine`` and ``learn workflows`` with ``--engine ray``: what threads make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.evaluate.fake_backends import PROFILE, a_set
from tests.jobs import job_backends as shelf

pytest.importorskip("ray")

ROOT = Path(__file__).parents[2]
QUESTIONS = 16
STYLE = 'prompt_style = "compact"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of questions, and a profile whose writer kills its process when a file says so."""
    a_set(tmp_path, QUESTIONS)
    (tmp_path / "deadly").mkdir()
    writer = f'"tests.evaluate.ray_backends:DeadlyWriter"\nmodel = "{tmp_path / "deadly"}"'
    text = PROFILE.format(vqa="answerer")
    old = '"tests.evaluate.fake_backends:Writer"\nmodel = "writer"'
    assert old in text
    text = text.replace(old, writer).replace(STYLE, "")  # only agents need no style of programs
    (tmp_path / "fake.toml").write_text(text)
    return tmp_path


def viper(folder: Path, *line: str) -> str:
    """Run a command; return what it says on standard error."""
    given = ["--profile", str(folder / "fake.toml"), "--sandbox", "weak", "--workers", "2"]
    kept = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    ended = subprocess.run(
        [sys.executable, "-m", "viper", *line, *given], cwd=ROOT, capture_output=True, text=True,
        env={**kept, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def told(row: dict[str, Any]) -> dict[str, Any]:
    """Without times, and without which of two samples of a picture came first."""
    left_out = ("cached", "model_calls")
    return {name: value for name, value in row.items()
            if name not in left_out and not name.endswith("seconds")}  # fmt: skip


ON_RAY = ("--engine", "ray", "--cpus-per-actor", "1")


def test_a_bank_is_mined_on_actors_of_which_one_dies(folder: Path) -> None:
    mine = ["ace", "mine", "--data", str(folder / "questions.csv"), "--spread", "--api", "vipergpt"]
    viper(folder, *mine, "--out", str(folder / "threads.jsonl"))
    (folder / "deadly" / "once-3").touch()
    said = viper(folder, *mine, "--out", str(folder / "ray.jsonl"), *ON_RAY)
    assert said.count("warning: an actor died (on ") == 1
    assert f"{QUESTIONS} of {QUESTIONS} programs" in said
    assert (folder / "ray.jsonl").read_bytes() == (folder / "threads.jsonl").read_bytes()


def test_workflows_are_made_on_actors_of_which_one_dies(folder: Path) -> None:
    learn = ["learn", "workflows", str(folder / "questions.csv"), "--max-turns", "2"]

    def made(name: str, *more: str) -> list[dict[str, Any]]:
        said.append(viper(folder, *learn, "--out", str(folder / name), *more))
        text = (folder / name / "workflows.jsonl").read_text()
        rows = [json.loads(row, object_hook=told) for row in text.splitlines()]
        return sorted(rows, key=lambda row: row["id"])

    said: list[str] = []
    alone = made("threads")
    (folder / "deadly" / "once-5").touch()
    on_ray = made("ray", *ON_RAY)
    assert said[1].count("warning: an actor died (on ") == 1
    assert len(on_ray) == QUESTIONS and on_ray == alone
    (folder / "deadly" / "always-7").touch()
    on_ray = made("again", *ON_RAY)
    assert [row["id"] for row in on_ray if row["error"]] == ["q7"]


def test_a_job_is_fitted_on_actors_of_which_one_dies(tmp_path: Path) -> None:
    """Its programs arise while actors run earlier ones."""
    table = shelf.table(tmp_path / "labels.csv", shelf.pictures(tmp_path / "pictures", 40))
    lamps = f'"tests.evaluate.ray_backends:DeadlyLamps", model = "{tmp_path / "deadly"}"'
    old = '"tests.jobs.job_backends:Lamps", model = "lamps"'
    assert old in shelf.PROFILE
    (tmp_path / "fake.toml").write_text(shelf.PROFILE.replace(old, lamps))
    fit = ["fit", str(table), "--query", shelf.QUERY, "--requests", "4"]

    def outcomes(name: str) -> list[str]:
        (path,) = (tmp_path / name).glob("tried-*/outcomes.jsonl")
        return sorted(filter(None, path.read_text().splitlines()))

    viper(tmp_path, *fit, "--out", str(tmp_path / "threads"))
    (tmp_path / "deadly").touch()
    said = viper(tmp_path, *fit, "--out", str(tmp_path / "ray"), *ON_RAY)
    assert said.count("warning: an actor died (on ") == 1
    assert not (tmp_path / "deadly").exists()
    for name in ("program.py", "job.json"):
        assert (tmp_path / "ray" / name).read_text() == (tmp_path / "threads" / name).read_text()
    assert (
        outcomes("ray") == outcomes("threads")
        and len({*outcomes("ray")}) == len(outcomes("ray")) > 40
    )
