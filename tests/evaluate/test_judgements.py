"""The sheet of edits for people to judge, and what they filled in."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from viper.cli import main
from viper.data.sample import Sample
from viper.errors import DataError
from viper.evaluate.judgements import JudgementSheet, RecordingMetric, read_judgements
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.models.media import read_picture
from viper.models.vision.roles import Pixels


def picture(value: int) -> Pixels:
    return np.full((4, 6, 3), value, np.uint8)


def sample(sample_id: str, text: str = "blur the cube") -> Sample:
    return Sample(sample_id, text, task="edit", media="image", target=None, load=lambda: picture(1))


def test_a_sheet_is_written_filled_and_read(tmp_path: Path) -> None:
    sheet = JudgementSheet(tmp_path / "judge.csv")
    kept = RecordingMetric(metric("mixed"), sheet)
    assert kept.name == "mixed" and kept.with_judge(lambda sample: None) is kept
    edits = [sample("a/../1"), sample("b", "=cmd()"), sample("c")]
    for one, value in zip(edits, (10, 20, None), strict=True):
        said = None if value is None else Prediction({}, picture=picture(value))
        kept.score(one, said)
    rows = [SampleResult.of(one, 0) for one in edits]
    other = Sample("q", "?", task="question", media="image", target="1", load=lambda: None)
    assert sheet.write([*rows, SampleResult.of(other, 0)]) == 3
    assert kept.figures(rows).n == 3
    written = list(csv.DictReader(sheet.path.open()))
    assert [row["after"] for row in written] == [
        "judge-pictures/a____1-after.png",
        "judge-pictures/b-after.png",
        "",
    ]
    assert written[1]["instruction"] == "'=cmd()" and {row["correct"] for row in written} == {""}
    assert (read_picture(tmp_path / written[0]["before"]) == 1).all()
    assert (read_picture(tmp_path / written[1]["after"]) == 20).all()
    fill(sheet.path, ["Yes", "", ""])
    with pytest.raises(DataError, match=r"1 of 3 rows have no word in .*: 'b'; fill"):
        read_judgements(sheet.path)
    judged = read_judgements(sheet.path, "wrong")
    assert judged.unfilled == ("b",) and judged.without_picture == 1
    assert judged.correct.n == 3 and round(judged.correct.value, 3) == 0.333
    fill(sheet.path, ["Yes", "1", "yes"])
    assert round(read_judgements(sheet.path).correct.value, 3) == 0.667  # no picture: wrong


def fill(path: Path, words: list[str]) -> None:
    rows = list(csv.DictReader(path.open()))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows({**row, "correct": word} for row, word in zip(rows, words, strict=True))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,instruction\n1,x\n", "expected the columns"),
        ("id,instruction,before,after,correct\n", "holds no rows"),
        ("id,instruction,before,after,correct\n1,x,b,a,maybe\n", r":2: 'correct': is 'maybe'"),
    ],
)
def test_what_is_no_sheet_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "judged.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=says):
        read_judgements(path)
    with pytest.raises(DataError, match="no such file"):
        read_judgements(tmp_path / "other.csv")


def test_the_command_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "judged.csv"
    path.write_text("id,instruction,before,after,correct\n1,x,b,a,yes\n2,x,b,a,no\n")
    for arguments, code in (
        (["--judgements", str(path)], 0),
        (["--judgements", str(path), "--json"], 0),
        ([], 2),
        (["--judgements", str(path), "--predictions", str(path)], 2),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["data", "score", "world-edit", *arguments])
        assert ended.value.code == code
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["2 edits, 0 without a picture", "correct 50.00"]
    assert json.loads(said[2])["correct"]["n"] == 2
