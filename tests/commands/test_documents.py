"""``--schema`` of ``viper run``, ``exec`` and ``apply``, on receipts that a fake model reads."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.commands.test_bad_input import refused, viper
from tests.evaluate.fake_backends import PROFILE
from tests.receipt import RECEIPT, picture_of
from viper.strategies.extract import shipped_program

SCHEMA = "total:money,date:date"


class Bench:
    """A folder with a receipt, a blank page and a PDF of both, and a profile of fake models."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.receipts = folder / "receipts"
        self.receipts.mkdir()
        receipt, blank = Image.fromarray(picture_of(RECEIPT)), Image.new("RGB", (400, 280), "white")
        receipt = receipt.resize((400, 500))
        receipt.save(self.receipts / "a.png")
        blank.save(self.receipts / "b.png")
        (folder / "fake.toml").write_text(PROFILE.format(vqa="answerer"))
        self.table = folder / "out.csv"

    def viper(self, *arguments: str | Path) -> tuple[int, str, str]:
        own = map(str, (*arguments, "--profile", self.folder / "fake.toml"))
        return viper(self._capsys, *own)

    def refused(self, *arguments: str | Path) -> str:
        own = map(str, (*arguments, "--profile", self.folder / "fake.toml"))
        return refused(self._capsys, *own)

    def apply(self, *arguments: str | Path, schema: str = SCHEMA) -> tuple[int, str, str]:
        line = ("apply", "extract", self.receipts, "-o", self.table, "--schema", schema)
        return self.viper(*line, *arguments)

    def rows(self) -> list[dict[str, str]]:
        with self.table.open(newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, capsys)


def test_run_reads_fields_and_needs_no_question(bench: Bench) -> None:
    drawn = bench.folder / "drawn.png"
    code, out, err = bench.viper("run", bench.receipts / "a.png", "--schema", SCHEMA,
                                 "--save", drawn)  # fmt: skip
    assert (code, out) == (0, "total: 9.55; date: 2018-12-25\n")
    assert "task extract (fields were given)" in err and "0 LLM calls" in err
    assert drawn.stat().st_size > 0
    assert bench.viper("run", bench.receipts / "a.png", "the sum?", "--schema", SCHEMA)[1] == out


def test_run_names_what_is_missing(bench: Bench) -> None:
    page = bench.folder / "page.html"
    code, out, err = bench.viper("run", bench.receipts / "b.png", "--schema", SCHEMA,
                                 "--html", page)  # fmt: skip
    assert (code, out) == (0, "total: not found; date: not found\n")
    assert "warning: total: nothing like it was read." in err
    assert "total: not found (nothing like it was read)" in page.read_text()


def test_json_holds_boxes_lines_and_confidence(bench: Bench) -> None:
    _, out, _ = bench.viper("run", bench.receipts / "a.png", "--schema", SCHEMA, "--json")
    record: dict[str, Any] = json.loads(out)
    assert record["answer_kind"] == "fields" and record["task"] == "extract"
    total = record["answer"][0]
    assert total["value"] == "9.55" and len(total["box"]) == 4 and 0 < total["confidence"] <= 1
    assert total["lines"] == ["TOTAL", "RM 9.55"] and total["reason"] == ""


def test_the_program_can_be_printed_changed_and_run(bench: Bench) -> None:
    _, out, _ = bench.viper("run", bench.receipts / "a.png", "--schema", SCHEMA, "--program-only")
    assert out.strip() == shipped_program().strip()
    program = bench.folder / "own.py"
    program.write_text(out)
    _, out, _ = bench.viper("exec", program, bench.receipts / "a.png", "--schema", "total:money")
    assert out == "total: 9.55\n"


def test_apply_writes_a_column_for_each_field(bench: Bench) -> None:
    assert bench.apply()[0] == 0
    rows = bench.rows()
    assert [(row["file"], row["total"], row["date"]) for row in rows] == [
        ("a.png", "9.55", "2018-12-25"), ("b.png", "", ""),
    ]  # fmt: skip
    assert [*rows[0]][-3:] == ["total", "date", "key"] and rows[1]["warnings"] == "field"
    assert json.loads(rows[0]["answer"])[0]["lines"] == ["TOTAL", "RM 9.55"]


def test_apply_continues_a_table_of_the_same_fields_alone(bench: Bench) -> None:
    bench.apply()
    whole = bench.table.read_bytes()
    bench.table.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    _, _, err = bench.apply()
    assert "1 of 2 are there already" in err and bench.table.read_bytes() == whole
    assert "another program" in bench.apply(schema="total:money")[2] or (
        "no row of viper apply" in bench.apply(schema="total:money")[2]
    )


def test_apply_writes_fields_as_json_lines(bench: Bench) -> None:
    bench.table = bench.folder / "out.jsonl"
    bench.apply()
    rows = [json.loads(line) for line in bench.table.read_text().splitlines()]
    assert [row["total"] for row in rows] == ["9.55", None]


def test_fields_need_no_model_but_ocr(bench: Bench) -> None:
    profile = bench.folder / "fake.toml"
    text = profile.read_text().replace("tests.evaluate.fake_backends:Writer", "vllm")
    profile.write_text(re.sub("detector = .*", 'detector = { backend = "onnx" }', text))
    assert "vllm" in bench.refused("run", bench.receipts / "a.png", "how many?")
    code, out, err = bench.viper("run", bench.receipts / "a.png", "--schema", SCHEMA)
    assert (code, out) == (0, "total: 9.55; date: 2018-12-25\n"), err
    assert bench.apply()[0] == 0 and bench.rows()[0]["total"] == "9.55"


def test_a_pdf_is_one_row_whatever_its_pages(bench: Bench) -> None:
    pytest.importorskip("pypdfium2")
    pages = [Image.open(bench.receipts / name) for name in ("b.png", "a.png")]
    for name in ("a.png", "b.png"):
        (bench.receipts / name).rename(bench.folder / name)
    pages[0].save(bench.receipts / "both.pdf", save_all=True, append_images=pages[1:])
    assert bench.apply()[0] == 0
    assert [(row["file"], row["total"]) for row in bench.rows()] == [("both.pdf", "9.55")]
    assert json.loads(bench.rows()[0]["answer"])[0]["image_index"] == 1


def test_wrong_schemas_are_one_line(bench: Bench) -> None:
    picture = bench.receipts / "a.png"
    assert "did you mean money" in bench.refused("run", picture, "--schema", "total:mony")
    assert "a name of letters" in bench.refused("run", picture, "--schema", "1:money")
    line = ("apply", "extract", bench.receipts, "-o", bench.table, "--schema")
    assert "is a column of every table" in bench.refused(*line, "file:text")
    assert "type of a field" in bench.refused(*line, "total:mony")
    assert "--schema total:money" in bench.refused(*line[:-1])


def test_a_missing_document_is_named(bench: Bench) -> None:
    typo = bench.receipts / "typo.png"
    assert f"{typo}: no such file" in bench.refused("run", typo, "--schema", SCHEMA)


def test_a_question_may_be_longer_than_a_file_name(bench: Bench) -> None:
    picture = bench.receipts / "a.png"
    code, out, err = bench.viper("run", picture, "the sum? " * 40, "--schema", SCHEMA)
    assert (code, out) == (0, "total: 9.55; date: 2018-12-25\n"), err
