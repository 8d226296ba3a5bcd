"""Part ``receipts``: figures of drawn and of real receipts, and stored lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from tests.evaluate.official import real
from tests.receipt import RECEIPT, Reader, lines_of, picture_of
from viper.models.vision.roles import TextLine
from viper_lab.photographs import receipts
from viper_lab.photographs.job import PhotographJob

NAMES = ("000", "001", "002", "003")


def a_folder(root: Path, rows: Sequence[str] = RECEIPT) -> Path:
    folder = root / "data" / "receipts"
    folder.mkdir(parents=True)
    for name in NAMES:
        Image.fromarray(picture_of(rows)).save(folder / f"{name}.jpg")
        fields = {"company": "Corner Shop Ltd", "date": "25/12/2018", "total": "9.55"}
        (folder / f"{name}.json").write_text(json.dumps(fields))
        cells = []
        for line in lines_of(*rows):
            x0, y0, x1, y1 = map(int, line.box)
            corners = [x0, y0, x1, y0, x1, y1, x0, y1]
            cells.append(",".join([*map(str, corners), line.text]))
        (folder / f"{name}.csv").write_text("\n".join(cells))
    return folder.parent


class Rapid(Reader):
    """In place of RapidOCR."""

    made: list[Rapid] = []

    def __init__(self, rows: Sequence[str] = RECEIPT) -> None:
        super().__init__(lines_of(*rows))
        self.made.append(self)


@pytest.fixture
def rapid(monkeypatch: pytest.MonkeyPatch) -> type[Rapid]:
    monkeypatch.setattr(Rapid, "made", [])
    monkeypatch.setattr(receipts, "RapidOcr", Rapid)
    return Rapid


def figures(measured: receipts.Measured) -> dict[str, float]:
    return {row.name: row.figure.mean for row in measured.rows if row.family == "all"}


def test_receipts_that_are_read_well_bear_the_claims_out(
    tmp_path: Path, rapid: type[Rapid]
) -> None:
    job = PhotographJob(a_folder(tmp_path), tmp_path / "out")
    measured = receipts.measure(job)
    assert figures(measured) == {
        "F1 of total": 1.0, "F1 of date": 1.0, "F1 of company": 1.0, "fields with a warning": 0.0,
        "wrong without a warning": 0.0, "planted totals found": 1.0, "false alarms": 0.0,
    }  # fmt: skip
    assert all(claim.holds for claim in measured.claims)
    assert "sums fix 4 of 4 totals" in measured.claims[-1].reason
    assert {row.family for row in measured.rows} == {"all", "development", "held back"}
    assert rapid.made[0].seen == len(NAMES)


def test_lines_that_were_read_are_not_read_again(tmp_path: Path, rapid: type[Rapid]) -> None:
    data = a_folder(tmp_path)
    receipts.measure(PhotographJob(data, tmp_path / "out", quick=True))
    assert rapid.made[0].seen == len(NAMES) // 2
    receipts.measure(PhotographJob(data, tmp_path / "out"))
    assert rapid.made[1].seen == len(NAMES) // 2
    stored = (tmp_path / "out" / "receipts" / "lines.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in stored] == ["000", "002", "001", "003"]


def test_fields_that_are_misread_without_a_doubt_fail_the_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ("Date: 26/12/2018", "Total | 9.50", "Total | 9.50")
    monkeypatch.setattr(receipts, "RapidOcr", lambda: Rapid(rows))
    measured = receipts.measure(PhotographJob(a_folder(tmp_path), tmp_path / "out"))
    assert figures(measured)["wrong without a warning"] == 1.0
    holds = {claim.claim: claim.holds for claim in measured.claims}
    assert [*holds.values()] == [False, False, False, True, True]


def test_one_digit_of_the_total_is_changed() -> None:
    for number in range(20):
        text = receipts.with_wrong("Total RM 1,009.50 of 3", "1009.50", receipts.Random(number))
        assert text.startswith("Total RM ") and text.endswith(" of 3")
        assert sum(a != b for a, b in zip(text, "Total RM 1,009.50 of 3", strict=True)) == 1


def test_real_lines_of_text_are_read_from_the_data_set(tmp_path: Path) -> None:
    job = PhotographJob(real("receipts").parent, tmp_path, quick=True)
    stored = receipts._Receipts(job)
    sample = stored.samples[0]
    lines: list[TextLine] = receipts.printed_lines(stored.root, sample.sample_id)
    stored.close()
    assert len(lines) > 10 and all(line.text and line.box[0] <= line.box[2] for line in lines)
