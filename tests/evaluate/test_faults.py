"""Faults in the middle of a run: it ends, others' answers stand, each failure has its name."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.evaluate.fake_backends import a_set, breaks, share_of
from tests.models.llm.openai_server import Answer, OpenAIServer, Received, completion, refusal
from viper.cli import main
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult

ROOT = Path(__file__).parents[2]
PROGRAM = (
    "def execute_command(image, question):\n    return ImagePatch(image).simple_query(question)"
)
QUESTIONS = 80


def evaluated(run: Path, *arguments: object) -> tuple[dict[str, SampleResult], dict[str, Any]]:
    """Rows by sample, and the report."""
    with pytest.raises(SystemExit) as ended:
        main(["eval", *map(str, arguments), "--out", str(run), "--no-html"])
    assert ended.value.code == 0
    with RunStore.read(run) as store:
        rows = {row.sample_id: row for row in store.rows()}
    return rows, json.loads((run / "report.json").read_text())


def answers(rows: Mapping[str, SampleResult]) -> dict[str, tuple[Any, ...]]:
    return {
        name: (row.prediction, row.score, row.program, row.failure) for name, row in rows.items()
    }


def asked(number: int) -> str:
    return f"what color is thing {number}?"


@pytest.fixture(scope="module")
def calm_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of models that never fail."""
    folder = tmp_path_factory.mktemp("calm")
    file, profile = a_set(folder / "set", QUESTIONS)
    evaluated(folder / "run", file, "--profile", profile)
    return folder / "run"


@pytest.fixture(scope="module")
def calm(calm_run: Path) -> dict[str, tuple[Any, ...]]:
    """What the samples get there."""
    with RunStore.read(calm_run) as store:
        return answers({row.sample_id: row for row in store.rows()})


def test_a_model_that_raises_on_some_items_fails_those_alone(
    tmp_path: Path, calm: dict[str, tuple[Any, ...]]
) -> None:
    file, profile = a_set(tmp_path / "broken", QUESTIONS, "broken")
    rows, made = evaluated(tmp_path / "run", file, "--profile", profile)
    hit = [f"q{n}" for n in range(QUESTIONS) if breaks(asked(n))]
    assert len(hit) >= 3 and len(rows) == QUESTIONS
    assert [name for name, row in rows.items() if row.failure] == hit
    assert {name: one for name, one in answers(rows).items() if name not in hit} == {
        name: one for name, one in calm.items() if name not in hit
    }
    assert made["failures"]["tool"]["count"] == len(hit) and set(made["failures"]) == {"tool"}
    assert made["failures"]["tool"]["examples"] == hit[:3]
    assert all("the kernel failed" in str(rows[name].message) for name in hit)
    right = sum(one[1] for name, one in calm.items() if name not in hit)
    assert made["figures"]["mean_score"]["value"] == pytest.approx(right / QUESTIONS)


class Unsteady:
    """Answers by the prompt alone, four times of five; else it refuses, babbles or hangs up."""

    def __init__(self, for_good: int | None = None) -> None:
        self._for_good = for_good
        self.asked: Counter[str] = Counter()
        self.failed = 0

    def __call__(self, request: Received) -> Answer:
        prompt = str(request.prompt)
        self.asked[prompt] += 1
        luck = share_of(f"{self.asked[prompt]} {prompt}")
        gone = self._for_good is not None and f"thing {self._for_good}?" in prompt[-60:]
        if luck >= 0.2 and not gone:
            return completion([PROGRAM], request.path)
        self.failed += 1
        hurry = {"Retry-After": "0"}
        return [
            refusal(429, headers=hurry),
            refusal(500, headers=hurry),
            Answer("<html>busy</html>"),
            Answer("", cut=0),
        ][int(luck * 20) % 4]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def served(folder: Path, behaviour: Unsteady, retries: int) -> Iterator[tuple[Path, Path]]:
    server = OpenAIServer(otherwise=behaviour)
    file, profile = a_set(folder, QUESTIONS)
    given = f'base_url = "{server.url}", api = "completions", max_retries = {retries}'
    text = profile.read_text().replace(
        'backend = "tests.evaluate.fake_backends:Writer"',
        f'backend = "openai"\noptions = {{ {given} }}',
    )
    profile.write_text(text)
    try:
        yield file, profile
    finally:
        server.close()


def test_an_endpoint_that_fails_now_and_then_changes_no_answer(
    tmp_path: Path, environment: None, calm: dict[str, tuple[Any, ...]]
) -> None:
    behaviour = Unsteady()
    for file, profile in served(tmp_path / "set", behaviour, retries=6):
        rows, made = evaluated(tmp_path / "run", file, "--profile", profile)
    assert behaviour.failed >= 8 and made["failures"] == {}
    assert {name: one[:2] for name, one in answers(rows).items()} == {
        name: one[:2] for name, one in calm.items()
    }


def test_where_retries_are_used_up_the_sample_fails_under_model(
    tmp_path: Path, environment: None, calm: dict[str, tuple[Any, ...]]
) -> None:
    for file, profile in served(tmp_path / "set", Unsteady(for_good=7), retries=3):
        rows, made = evaluated(tmp_path / "run", file, "--profile", profile)
    assert rows["q7"].failure == "model" and rows["q7"].score == 0.0
    assert "q7" in made["failures"]["model"]["examples"] and set(made["failures"]) == {"model"}
    failed = {name for name, row in rows.items() if row.failure}
    assert len(failed) == made["failures"]["model"]["count"] <= 3
    assert {name: one[:2] for name, one in answers(rows).items() if name not in failed} == {
        name: one[:2] for name, one in calm.items() if name not in failed
    }


def test_pictures_that_cannot_be_read_fail_their_samples_alone(
    tmp_path: Path, calm: dict[str, tuple[Any, ...]]
) -> None:
    file, profile = a_set(tmp_path / "set", QUESTIONS)
    pictures = tmp_path / "set" / "pictures"
    whole = (pictures / "0.png").read_bytes()
    (pictures / "0.png").write_bytes(whole[: len(whole) // 2])
    (pictures / "2.png").write_bytes(b"\x00" * 500)
    (pictures / "4.png").unlink()
    (pictures / "6.png").write_bytes(whole[:16] + (60_000).to_bytes(4, "big") * 2 + whole[24:])
    (pictures / "8.png").write_bytes(b"")
    rows, made = evaluated(tmp_path / "run", file, "--profile", profile)
    hit = {f"q{n}" for n in range(QUESTIONS) if n // 4 in (0, 2, 4, 6, 8)}
    assert {name for name, row in rows.items() if row.failure == "media"} == hit
    assert made["failures"]["media"]["count"] == 20 and set(made["failures"]) == {"media"}
    for picture in (0, 2, 4, 6, 8):
        assert f"{picture}.png" in str(rows[f"q{picture * 4}"].message)
    assert {name: one for name, one in answers(rows).items() if name not in hit} == {
        name: one for name, one in calm.items() if name not in hit
    }


def in_a_process(
    run: Path, file: Path, profile: Path, *more: str, most_bytes: int | None = None
) -> subprocess.CompletedProcess[str]:
    def bound() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    return subprocess.run(
        [sys.executable, "-m", "viper", "eval", str(file), "--profile", str(profile),
         "--out", str(run), *more],
        capture_output=True, text=True, cwd=ROOT, preexec_fn=bound, timeout=120,
    )  # fmt: skip


def check_ended_in_one_line(done: subprocess.CompletedProcess[str], run: Path) -> int:
    """How many rows are stored."""
    assert done.returncode == 1 and done.stdout == "", done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("viper: ")]
    assert len(said) == 1 and "continue with --resume" in said[0], done.stderr
    assert "Traceback" not in done.stderr
    assert not [path for path in run.iterdir() if path.name.endswith(".tmp")]
    assert not (run / "report.json").exists()
    with RunStore.read(run) as store:
        return len(list(store.rows()))


def check_goes_on(done: subprocess.CompletedProcess[str], run: Path, calm: Path) -> None:
    assert done.returncode == 0, done.stderr
    found, expected = (
        {**json.loads((one / "report.json").read_text()), "timing": 0} for one in (run, calm)
    )
    assert found == expected


@pytest.mark.parametrize("most_bytes", [150_000, 300_000])
def test_files_that_may_not_grow_end_the_run_and_it_goes_on(
    tmp_path: Path, calm_run: Path, most_bytes: int
) -> None:
    file, profile, run = *a_set(calm_run.parent / "set", QUESTIONS), tmp_path / "run"
    done = in_a_process(run, file, profile, most_bytes=most_bytes)
    assert 0 < check_ended_in_one_line(done, run) < QUESTIONS
    check_goes_on(in_a_process(run, file, profile, "--resume"), run, calm_run)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
def test_a_full_disk_ends_the_run_and_it_goes_on(tmp_path: Path, calm_run: Path) -> None:
    file, profile = a_set(calm_run.parent / "set", QUESTIONS)
    mount = tmp_path / "small"
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(mount)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode()}")
    try:
        run = mount / "run"
        done = in_a_process(run, file, profile)
        assert 0 < check_ended_in_one_line(done, run) < QUESTIONS
        subprocess.run(["mount", "-o", "remount,size=16m", str(mount)], check=True)
        check_goes_on(in_a_process(run, file, profile, "--resume"), run, calm_run)
    finally:
        subprocess.run(["umount", str(mount)], check=False)
