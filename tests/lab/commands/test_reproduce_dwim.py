"""``viper lab reproduce dwim``: the whole of it in miniature, and going on with what is stored."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.forked import viper
from viper.cli import main
from viper.errors import UsageError
from viper_lab.papers import dwim
from viper_lab.papers.dwim_study import DwimStudy


def reproduced(folder: Path) -> tuple[dict[str, object], str]:
    few = ["--workflows", "4", "--samples", "2", "--steps", "2"]
    found = subprocess.run(
        viper("lab", "reproduce", "dwim", "--quick", *few, "--json", "--out", folder),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )  # fmt: skip
    assert found.returncode in (0, 1), found.stderr
    return json.loads(found.stdout), found.stderr


@pytest.mark.timeout(900)
def test_agents_are_tuned_once_and_answer_once(tmp_path: Path) -> None:
    folder = tmp_path / "dwim"
    report, said = reproduced(folder)
    rows = {(row["table"], row["name"]) for row in report["rows"]}  # type: ignore[union-attr,index,attr-defined]
    assert {name for table, name in rows if table == "table 10"} == {
        "not tuned",
        "not tuned, with examples",
        "discrepancy-aware, SFT",
        "discrepancy-aware, instruct-masking",
    }
    assert {name for table, name in rows if table == "data utilisation"} == {
        "standard",
        "discrepancy",
    }
    assert len(report["claims"]) == 7 and "tuning on" in said  # type: ignore[arg-type]
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert str(tmp_path) not in json.dumps(report)
    stored = {path: path.read_bytes() for path in folder.rglob("workflows.jsonl")}
    assert len(stored) == 5
    again, said = reproduced(folder)
    assert again["rows"] == report["rows"] and "tuning on" not in said
    assert {path: path.read_bytes() for path in stored} == stored


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--train-split", "train", "--split", "train:question"], "would be learned from"),
        (["--longest", "32"], "give --longest"),
        (["--profile", "embedded", "--checks-by", "llm"], "a --profile with a chat model"),
    ],
)
def test_what_would_say_nothing_is_refused_before_anything_is_made(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lab", "reproduce", "dwim", "--quick", *options, "--out", str(tmp_path / "dwim")])
    assert ended.value.code == 2 and says in capsys.readouterr().err
    assert not (tmp_path / "dwim").exists()


@pytest.mark.parametrize(
    ("options", "temperature", "checks_by", "api"),
    [
        (["--profile", "embedded"], 1.0, "rules", None),
        (["--profile", "embedded", "--api", "dwim-vcr"], 1.0, "rules", "dwim-vcr"),
        (["--profile", "embedded", "--temperature", "0.7"], 0.7, "rules", None),
        (["--profile", "paper-dwim", "--data", "gqa"], None, "llm", None),
        (["--profile", "paper-dwim", "--data", "gqa", "--checks-by", "rules"], None, "rules", None),
    ],
)  # fmt: skip
def test_a_chat_model_recognises_discrepancies_at_the_temperature_of_its_profile(
    options: list[str],
    temperature: float | None,
    checks_by: str,
    api: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    studies: list[DwimStudy] = []

    def caught(study: DwimStudy, *, quick: bool) -> None:
        studies.append(study)
        raise UsageError("enough")

    monkeypatch.setattr(dwim, "reproduce_dwim", caught)
    with pytest.raises(SystemExit):
        main(["lab", "reproduce", "dwim", "--quick", *options, "--out", str(tmp_path / "dwim")])
    (study,) = studies
    of_profile = study.components.settings
    assert study.explore.temperature == (
        of_profile.temperature if temperature is None else temperature
    )
    assert study.checks_by == checks_by
    assert api is None or of_profile.api == api
