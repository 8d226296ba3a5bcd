"""Task ``extract``: fields of a document by the shipped program, or by one of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.receipt import RECEIPT, Reader, lines_of, picture_of
from tests.strategies.bench import Bench
from viper.errors import UsageError
from viper.models.domain import Domain
from viper.reasoner import Reasoner, RunOptions
from viper.record import record_from_json, result_record, trace_from_record
from viper.run_result import RunResult
from viper.schema import Trace, to_json
from viper.strategies.answers import AGREED, ALONE, DISAGREED

FIELDS = "total:money, date:date, company:text"


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench([]) as bench:
        yield bench


class Extraction:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def reasoner(self, *rows: str, score: float = 1.0, **parts: Any) -> Reasoner:
        components = self.bench.reasoner.components
        roles = {"ocr": lambda: Reader(lines_of(*rows, score=score))}
        toolbox = components.toolbox.with_roles(roles).with_caches(64, 16)
        return Reasoner(replace(components, toolbox=toolbox, **parts))

    def run(self, *rows: str, fields: str = FIELDS, score: float = 1.0) -> RunResult:
        options = RunOptions(fields=fields)
        return self.reasoner(*rows, score=score).run(picture_of(rows), "read it", options)

    def fields(self, *rows: str, **named: Any) -> dict[str, dict[str, Any]]:
        result = self.run(*rows, **named)
        assert result.answer is not None, result.failure
        return {each["field"]: each for each in result.answer.value}

    def execute(self, program: str, fields: str = "total:money", rows: Any = RECEIPT) -> RunResult:
        options = RunOptions(fields=fields)
        return self.reasoner(*rows).execute(program, picture_of(rows), "read it", options)


@pytest.fixture
def extraction(bench: Bench) -> Extraction:
    return Extraction(bench)


def test_the_shipped_program_reads_a_receipt_without_a_language_model(
    extraction: Extraction,
) -> None:
    result = extraction.run(*RECEIPT)
    assert result.answer is not None and result.answer.kind == "fields"
    assert result.value == {"total": "9.55", "date": "2018-12-25", "company": "CORNER SHOP LTD"}
    assert [each["field"] for each in result.answer.value] == ["total", "date", "company"]
    assert result.trace.task == "extract" and result.trace.strategy == "extract"
    assert result.trace.usage.llm_calls == 0
    assert "def execute_command" in (result.program or "")
    assert {"lines", "sums"} <= {call.tool for call in result.trace.tool_calls}


def test_a_field_has_its_place_its_row_and_a_confidence(extraction: Extraction) -> None:
    fields = extraction.fields(*RECEIPT, score=0.9)
    total, date = fields["total"], fields["date"]
    assert total["box"][1::2] == [170, 186] and 250 <= total["box"][0] < total["box"][2]
    assert total["lines"] == ["TOTAL", "RM 9.55"] and total["image_index"] == 0
    assert date["lines"] == ["Date: 25/12/2018 14:05"]
    assert total["confidence"] == pytest.approx(AGREED * 0.9, abs=1e-3)
    assert date["confidence"] == pytest.approx(ALONE * 0.9, abs=1e-3)
    assert not any(each["reason"] for each in fields.values())


def test_a_field_that_is_not_there_is_null_with_a_reason_and_a_warning(
    extraction: Extraction,
) -> None:
    result = extraction.run("nothing", fields="total:money,iban:text")
    assert result.value == {"total": None, "iban": None}
    for each in result.answer.value:  # type: ignore[union-attr]
        assert each["box"] is None and each["confidence"] is None and each["lines"] == []
        assert each["reason"] == "nothing like it was read"
    assert [w.text for w in result.warnings if w.kind == "field"] == [
        "total: nothing like it was read.", "iban: nothing like it was read.",
    ]  # fmt: skip


def test_two_totals_that_disagree_are_named(extraction: Extraction) -> None:
    entry = extraction.fields("Total | 9.00", "", "Total | 8.00")["total"]
    assert entry["reason"] == "2 candidates disagree: 8.00, 9.00"
    assert entry["confidence"] == DISAGREED


def test_a_total_that_no_sum_gives_is_doubted(extraction: Extraction) -> None:
    assert not extraction.fields(*RECEIPT)["total"]["reason"]
    wrong = [row.replace("RM 9.55", "RM 8.55") for row in RECEIPT]
    assert extraction.fields(*wrong)["total"]["reason"] == "2 candidates disagree: 8.55, 9.55"


def test_other_fields_are_read_by_their_labels(extraction: Extraction) -> None:
    rows = ("Invoice no: A-17", "Due date | 01/02/2019", "Guests | 4", "VAT 20 % | 1.50")
    fields = "invoice_no:text,due_date:date,guests:number,tax:money"
    values = {name: each["value"] for name, each in extraction.fields(*rows, fields=fields).items()}
    assert values == {"invoice_no": "A-17", "due_date": "2019-02-01", "guests": "4", "tax": "1.50"}


def test_fields_are_looked_for_on_all_pages(extraction: Extraction) -> None:
    pages, rows = [picture_of(RECEIPT), picture_of(RECEIPT)[:, ::-1] - 1], RECEIPT
    result = extraction.reasoner(*rows).run(pages, "read it", RunOptions(fields="total:money"))
    assert result.value == {"total": "9.55"}
    assert {call.args[0]["fields"][0] for call in result.trace.tool_calls
            if call.tool == "sums"} == {"image0", "image1"}  # fmt: skip


def test_a_program_of_the_caller_gets_the_fields_and_returns_a_mapping(
    extraction: Extraction,
) -> None:
    program = (
        "def execute_command(image, fields):\n"
        "    found = value_right_of(ImagePatch(image), 'TOTAL')\n"
        "    assert fields == {'total': 'money', 'note': 'text'}\n"
        "    return {'total': found, 'note': 'seen'}\n"
    )
    result = extraction.execute(program, "total:money,note")
    assert result.value == {"total": "9.00", "note": "seen"} or result.value["total"] == "9.55"
    note = result.answer.value[1]  # type: ignore[union-attr]
    assert note["box"] is None and note["lines"] == [] and note["confidence"] == ALONE


@pytest.mark.parametrize("value", ["'9.00'", "7", "[1]", "None", "image"])
def test_anything_but_a_mapping_is_one_line(extraction: Extraction, value: str) -> None:
    result = extraction.execute(f"def execute_command(image):\n    return {value}\n")
    assert result.answer is None and result.failure is not None
    assert result.failure.kind == "return_type" and "a mapping of the fields" in (
        result.failure.message
    )


def test_values_of_odd_types_are_no_fields(extraction: Extraction) -> None:
    program = (
        "def execute_command(image):\n    return {'total': [None, [], {}, image, 2.5], 1: 2}\n"
    )
    result = extraction.execute(program)
    assert result.value == {"total": "2.5"}


def test_a_writer_is_asked_if_a_strategy_is_named() -> None:
    program = "def execute_command(image, fields):\n    return {name: '5.00' for name in fields}"
    with Bench([f"```python\n{program}\n```"], prompt_style="chat") as bench:
        options = RunOptions(fields="total:money", strategy="program", api="more+photo")
        reasoner = Extraction(bench).reasoner(*RECEIPT)
        result = reasoner.run(picture_of(RECEIPT), "read it", options)
        assert result.value == {"total": "5.00"} and result.trace.usage.llm_calls == 1
        prompt = result.trace.trials[0].prompt or ""
        assert "Fields: total:money" in prompt and "value_right_of(" in prompt
        assert "execute_command(image, fields)" in prompt


def test_the_domain_of_other_models_says_nothing_about_documents(
    extraction: Extraction, tmp_path: Path
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("cube")
    domain = Domain("solids", words, withhold_words=True)
    reasoner = extraction.reasoner(*RECEIPT, domain=domain)
    result = reasoner.run(picture_of(RECEIPT), "read zebras", RunOptions(fields="total:money"))
    assert result.answer is not None and not result.warnings


def test_what_cannot_be_extracted_is_refused_before_anything_runs(extraction: Extraction) -> None:
    reasoner, picture = extraction.reasoner(*RECEIPT), picture_of(RECEIPT)
    with pytest.raises(UsageError, match="0 fields; expected 1 to"):
        reasoner.run(picture, "read it", RunOptions(task="extract"))
    with pytest.raises(UsageError, match="type of a field"):
        reasoner.run(picture, "read it", RunOptions(fields="total:euro"))
    clip = np.zeros((2, 8, 8, 3), np.uint8)
    with pytest.raises(UsageError, match="strategy extract reads pictures"):
        reasoner.run(clip, "read it", RunOptions(fields="total:money"))
    with pytest.raises(UsageError, match="strategy extract reads pictures"):
        reasoner.run(picture, "where?", RunOptions(strategy="extract"))


def test_a_trace_keeps_the_fields_and_older_ones_are_still_read(extraction: Extraction) -> None:
    trace = extraction.run(*RECEIPT).trace
    stored = to_json(trace)
    assert record_from_json(Trace, stored).query.fields == (
        "total:money",
        "date:date",
        "company:text",
    )
    assert trace_from_record(result_record(trace)).answer == trace.answer
    del stored["query"]["fields"]
    assert record_from_json(Trace, stored).query.fields == ()
