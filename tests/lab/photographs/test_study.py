"""``viper lab reproduce photographs``: parts by name, data that are missing, the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from viper.cli import main
from viper.errors import UsageError
from viper_lab.papers.result import Claim
from viper_lab.photographs import study
from viper_lab.photographs.job import Measured, PhotographJob

Capture = pytest.CaptureFixture[str]


def reproduce(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["lab", "reproduce", "photographs", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_only_the_parts_that_are_named_are_measured_and_a_claim_that_fails_is_the_exit_code(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool, Path]] = []

    def part(name: str, holds: bool) -> study.Part:
        def measure(job: PhotographJob) -> Measured:
            asked.append((name, job.quick, job.data))
            return Measured(claims=(Claim(f"{name} works", holds, "seen"),))

        return measure

    parts = {"cats": part("cats", True), "dogs": part("dogs", False)}
    monkeypatch.setattr(study, "PARTS", parts)
    line = ("--data", tmp_path, "--quick", "--out", tmp_path / "out")
    code, out, _ = reproduce(capsys, *line, "--part", "cats", "--json")
    assert code == 0 and asked == [("cats", True, tmp_path)]
    assert [claim["claim"] for claim in json.loads(out)["claims"]] == ["cats works"]
    code, out, _ = reproduce(capsys, *line)
    assert code == 1 and "no    dogs works: seen" in out and len(asked) == 3
    assert json.loads((tmp_path / "out" / "report.json").read_text())["title"] == "Photographs"


def test_a_part_that_nobody_knows_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    code, out, err = reproduce(capsys, "--data", tmp_path, "--part", "unicorns")
    assert code == 2 and out == "" and "'unicorns'" in err.splitlines()[-1]


def test_the_folder_is_named_by_option_or_environment(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIPER_DATA", raising=False)
    assert "--data" in reproduce(capsys)[2]
    monkeypatch.setenv("VIPER_DATA", str(tmp_path))
    assert "'unicorns'" in reproduce(capsys, "--part", "unicorns")[2]


def test_a_folder_without_what_a_part_needs_is_one_line(tmp_path: Path) -> None:
    job = PhotographJob(tmp_path, tmp_path / "out")
    with pytest.raises(UsageError, match="no folder bccd; expected photos/, bccd/"):
        job.folder("bccd")
    (tmp_path / "models").mkdir()
    with pytest.raises(UsageError, match=r"0 \.onnx files; expected one"):
        job.detector()
