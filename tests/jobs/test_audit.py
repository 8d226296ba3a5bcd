"""``viper audit``: labels that were planted wrong are found, and exported for labelling tools."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands.test_bad_input import refused, viper
from tests.jobs import job_backends as shelf
from viper.errors import UsageError
from viper.jobs.audit import Suspect, export
from viper.jobs.cases import Label
from viper.jobs.job import JudgedCase

Capture = pytest.CaptureFixture[str]
WRONG = ("004.png", "011.png", "020.png")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shelf.toml").write_text(shelf.PROFILE)
    return tmp_path


def audit(capsys: Capture, table: Path, *more: str) -> tuple[int, str, str]:
    profile = ("--profile", str(table.parent / "shelf.toml"), "--requests", "2")
    return viper(capsys, "audit", str(table), *profile, *more)


def test_planted_labels_come_first(folder: Path, capsys: Capture) -> None:
    answers = shelf.pictures(folder / "pictures", 36)
    for name in WRONG:
        answers[name] = "no" if answers[name] == "yes" else "yes"
    table = shelf.table(folder / "labels.csv", answers)
    more = ("--query", shelf.QUERY, "--export", str(folder / "suspects.json"))
    code, out, err = audit(capsys, table, *more)
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert {Path(row["media"]).name for row in rows} == set(WRONG)
    assert all(row["label"] != row["answer"] for row in rows)
    assert "3 of 36 labels are contradicted" in err
    tasks = json.loads((folder / "suspects.json").read_text())
    said = [task["predictions"][0]["result"][0]["value"]["choices"] for task in tasks]
    assert said == [[row["answer"]] for row in rows]
    assert all(0 <= task["predictions"][0]["score"] <= 1 for task in tasks)
    coco = ("--query", shelf.QUERY, "--format", "coco", "--export", str(folder / "x.json"))
    code, _, err = audit(capsys, table, *coco)
    assert (code, "these answers are none; use label-studio" in err) == (2, True)


@pytest.mark.parametrize("form", ["coco", "yolo", "label-studio"])
def test_boxes_are_exported(folder: Path, capsys: Capture, form: str) -> None:
    pictures = folder / "pictures"
    pictures.mkdir()
    lines = ["media,query,answer,task"]
    for number in range(12):
        shelf.picture(pictures / f"{number:03}.png", 1, 1)
        box = [161, 1, 175, 15] if number else [100, 1, 120, 15]
        lines.append(f'pictures/{number:03}.png,the jar,"{box}",ground')
    table = folder / "labels.csv"
    table.write_text("\n".join(lines) + "\n")
    out = folder / "export"
    code, said, err = audit(capsys, table, "--format", form, "--export", str(out))
    assert code == 0, err
    assert [Path(row["media"]).name for row in csv.DictReader(said.splitlines())] == ["000.png"]
    if form == "yolo":
        assert (out / "classes.txt").read_text() == "the jar\n"
        shares = [float(word) for word in (out / "000.txt").read_text().split()]
        assert shares[:5] == pytest.approx([0, 168 / 240, 8 / 20, 14 / 240, 14 / 20], abs=1e-5)
    elif form == "coco":
        (found,) = json.loads(out.read_text())["annotations"]
        assert found["bbox"] == [161, 1, 14, 14]
    else:
        (task,) = json.loads(out.read_text())
        value = task["predictions"][0]["result"][0]["value"]
        assert value["x"] == pytest.approx(100 * 161 / 240)
        assert value["rectanglelabels"] == ["the jar"]


def test_a_missing_table_is_one_line(folder: Path, capsys: Capture) -> None:
    assert "no such file" in refused(capsys, "audit", str(folder / "labels.csv"))


def test_pictures_of_one_name_are_not_written_over_each_other(tmp_path: Path) -> None:
    judged = JudgedCase("c", "1.png", "0,0,9,9", "1,1,5,5", False, 0.9, 1.0)
    found = []
    for folder in "ab":
        (tmp_path / folder).mkdir()
        shelf.picture(tmp_path / folder / "1.png", 1, 1)
        label = Label((str(tmp_path / folder / "1.png"),), "the jar", "ground", (0, 0, 9, 9))
        found.append(Suspect(label, judged))
    with pytest.raises(UsageError, match="have one name"):
        export(tmp_path / "out", "yolo", found)
    assert not (tmp_path / "out").exists()
    found[1] = replace(found[1], label=replace(found[1].label, query="the lamp"))
    export(tmp_path / "x.json", "coco", found)
    coco = json.loads((tmp_path / "x.json").read_text())
    assert [each["category_id"] for each in coco["annotations"]] == [1, 2]
    assert [each["name"] for each in coco["categories"]] == ["the jar", "the lamp"]
