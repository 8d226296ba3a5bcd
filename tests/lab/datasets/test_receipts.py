"""Receipts: their splits, targets and fields, in a miniature and in the real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data import miniature
from tests.evaluate.official import real
from viper.data.sample import DatasetSpec
from viper.errors import DataError
from viper_lab.datasets.held_back import is_held_back
from viper_lab.datasets.receipts import FIELDS, RECEIPTS


def ids(root: Path, split: str) -> list[str]:
    return [sample.sample_id for sample in RECEIPTS.samples(DatasetSpec(root, split))]


def test_the_third_that_is_held_back_is_a_split_of_its_own(tmp_path: Path) -> None:
    root = miniature.receipts(tmp_path)
    every, held, rest = (ids(root, split) for split in ("all", "held", "rest"))
    assert every == sorted([*held, *rest]) and held and rest
    assert all(map(is_held_back, held)) and not any(map(is_held_back, rest))


def test_a_sample_asks_for_the_fields_of_its_picture(tmp_path: Path) -> None:
    root = miniature.receipts(tmp_path)
    (root / "000.json").write_text(json.dumps({"company": "A", "date": "1/2/2018", "total": ""}))
    sample = next(each for each in RECEIPTS.samples(DatasetSpec(root, "all")))
    assert sample.task == "extract" and sample.query.fields == FIELDS
    assert sample.files == ("000.jpg",) and sample.target == {"company": "A", "date": "1/2/2018"}


def test_a_receipt_without_a_key_is_one_line(tmp_path: Path) -> None:
    root = miniature.receipts(tmp_path)
    (root / "000.json").write_text(json.dumps({"company": "A", "total": "1.00"}))
    with pytest.raises(DataError, match=r"000\.json: has no 'date'"):
        RECEIPTS.samples(DatasetSpec(root, "all"))


def test_the_real_files_are_complete() -> None:
    findings = RECEIPTS.check(DatasetSpec(real("receipts"), "all"))
    assert all(finding.ok for finding in findings)
