"""Banks: read, written whole, and never showing a query its own sample."""

from dataclasses import replace
from pathlib import Path

import pytest

from viper.ace.bank import Bank, read_bank, write_bank
from viper.ace.mine import Mined, keep_best
from viper.errors import UsageError
from viper.schema import Example, Query

EXAMPLE = Example(
    query="the leftmost cube",
    program="def execute_command(image):\n    return None",
    task="ground",
    api="abstract",
    score=1.0,
    sample_id="train-1",
    seed=0,
    llm="writer@1",
    api_hash="abc",
)


def test_a_bank_survives_the_file(tmp_path: Path) -> None:
    examples = [EXAMPLE, replace(EXAMPLE, task="choice", options=("a", "b"), sample_id="train-2")]
    write_bank(tmp_path / "bank.jsonl", examples)
    assert read_bank(tmp_path / "bank.jsonl").items == tuple(examples)
    assert [path.name for path in tmp_path.iterdir()] == ["bank.jsonl"]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bank.jsonl"
    path.write_text('{"query": 1}\n')
    with pytest.raises(UsageError, match=r"bank.jsonl:1: incomplete example"):
        read_bank(path)
    path.write_text("\n[1]\n")
    with pytest.raises(UsageError, match=r"bank.jsonl:2: not an example"):
        read_bank(path)
    path.write_text("{oops")
    with pytest.raises(UsageError, match=r"bank.jsonl:1: not JSON"):
        read_bank(path)
    with pytest.raises(UsageError, match="viper ace mine"):
        read_bank(tmp_path / "absent.jsonl")


def test_examples_fit_task_and_api_and_never_show_the_query_itself() -> None:
    bank = Bank(
        [
            EXAMPLE,
            replace(EXAMPLE, sample_id="train-2"),
            replace(EXAMPLE, sample_id="train-3", api="vipergpt"),
            replace(EXAMPLE, sample_id="train-4", task="question"),
            replace(EXAMPLE, sample_id="train-5", polarity="incorrect"),
        ]
    )
    query = Query("the leftmost cube", "ground", sample_id="train-1")
    assert [e.sample_id for e in bank.examples(query, "ground", "abstract", 9)] == ["train-2"]
    assert len(bank.examples(Query("x"), "ground", "abstract", 1)) == 1


def test_keeping_takes_kinds_in_turn_and_shorter_programs_first() -> None:
    def mined(sample_id: str, kind: str, program: str) -> Mined:
        return Mined(1, 1, replace(EXAMPLE, sample_id=sample_id, program=program), kind)

    kept = keep_best(
        [
            mined("a", "nth", "long program"),
            mined("b", "nth", "short"),
            mined("c", "nth", "longer program"),
            mined("d", "middle", "the longest program"),
            Mined(1, 1, None, "middle"),
        ],
        keep=3,
    )
    assert [example.sample_id for example in kept] == ["b", "d", "a"]
