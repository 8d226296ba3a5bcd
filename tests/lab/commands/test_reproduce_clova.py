"""``viper lab reproduce clova`` on other data than the world's: what it needs, and the whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_bad_input import viper
from tests.tuning.test_coco_store import coco
from viper.models.vision.prompt_pool import PromptPool
from viper_lab.datasets.held_back import is_held_back
from viper_lab.world.annotated import WorldStore
from viper_lab.world.found import WorldPictureSearch

COMMAND = ["lab", "reproduce", "clova", "--quick", "--profile", "embedded"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    kinds = (["person"], ["person", "car"], ["traffic light"], ["car"])
    return coco(tmp_path / "coco", {number: kinds[number % 4] for number in range(30)})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--data", "nlvr2", "--root", "x"], "--annotated lvis|FILE.json"),
        (["--data", "gqa", "--annotated", "lvis"], "--pictures DIR"),
        (["--data", "gqa", "--annotated", "none", "--pictures", "none"], "--annotated lvis"),
        (["--data", "gqa", "--annotated", "world", "--pictures", "none"], "--annotated lvis"),
        (["--data", "gqa", "--annotated", "lvis", "--pictures", "none", "--split",
          "train_balanced"], "choose another --split or --stream-split"),
        (["--data", "FILE", "--annotated", "FILE", "--pictures", "none"], "--concepts goes with"),
        (["--data", "FILE", "--concepts", "car"], "--annotated lvis"),
        (["--data", "world-pairs", "--split", "train"], "choose another --split"),
        (["--data", "FILE", "--annotated", "FILE", "--pictures", "none", "--concepts", "yeti"],
         "expected some of person, car, traffic light"),
        (["--data", "FILE", "--annotated", "lvis", "--pictures", "none", "--concepts", "car"],
         "--annotated-root"),
        (["--data", "FILE", "--concepts", " ,"], "--concepts goes with"),
        (["--concepts", "car"], "--concepts goes with --data FILE.json"),
    ],
)  # fmt: skip
def test_data_of_ones_own_is_named_in_one_line(
    more: list[str], says: str, file: Path, tmp_path: Path, capsys: Capture
) -> None:
    given = [str(file) if each == "FILE" else each for each in more]
    code, out, err = viper(capsys, *COMMAND, "--out", str(tmp_path / "out"), *given)
    assert (code, out) == (2, "") and says in err.splitlines()[-1], err
    assert "Traceback" not in err


@pytest.mark.models
@pytest.mark.timeout(900)
def test_concepts_are_learned_from_own_boxes_and_the_world_is_not_asked(
    file: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise AssertionError("the world's data was asked for")

    monkeypatch.setattr(WorldStore, "samples", denied)
    monkeypatch.setattr(WorldPictureSearch, "__init__", denied)
    out = tmp_path / "out"
    amounts = ["--stream", "2", "--samples", "2", "--start", "2", "--positives", "3"]
    source = ["--annotated", str(file), "--pictures", str(file.parent / "images")]
    line = [*COMMAND, "--data", str(file), "--concepts", "person,car", *amounts, *source]
    code, printed, err = viper(capsys, *line, "--out", str(out), "--json")
    assert code in (0, 1) and err.count("written: ") == 1, err
    report = json.loads(printed)
    rows = {row["name"]: row for row in report["rows"] if row["table"].startswith("the detector")}
    for name in ("person", "car"):
        for kind in ("", " (absent)"):
            assert {f"find {name}{kind}, {when}" for when in ("before", "after")} <= set(rows)
    gains = {gain["name"]: gain["interval"] for gain in report["gains"]}
    assert len(gains["find person"]) == len(gains["baseline -> + tool updates"]) == 2
    assert [row["n"] for row in report["rows"] if row["table"] == "table 3"] == [2] * 4
    assert all("prompts kept" in row["table"] for row in rows.values())
    pool = PromptPool(out / "tools" / "pool-0")
    used = {name for each in pool.kept() for name in each.evidence.trained_on}
    pool.close()
    numbers = {int(name.partition("#")[0].rpartition(":")[2]) for name in used}
    assert numbers and not any(map(is_held_back, numbers))
    again = viper(capsys, *line, "--out", str(out), "--json")
    assert json.loads(again[1])["rows"] == report["rows"]
