"""Banks: read, written whole, and never showing a query its own sample."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from viper.ace.bank import Bank, read_bank, write_bank
from viper.embedded import BANKS
from viper.errors import UnknownNameError, UsageError
from viper.schema import Example, Query
from viper.strategies.examples import ExampleRequest

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
WANTED = ExampleRequest("ground", "abstract", 9)

QUERIES = ("the red cube", "two rings left of a ball", "a ball", "the cube behind the ring")


def varied() -> Bank:
    return Bank(
        replace(EXAMPLE, query=query, sample_id=f"s{number}")
        for number, query in enumerate(QUERIES)
    )


def ids(bank: Bank, query: Query, wanted: ExampleRequest) -> list[str]:
    return [one.example.sample_id for one in bank.select(query, wanted).correct]


def test_a_bank_survives_the_file(tmp_path: Path) -> None:
    examples = [
        EXAMPLE,
        replace(EXAMPLE, task="choice", options=("a", "b"), sample_id="train-2"),
        replace(EXAMPLE, query="a\u2028b\x85c", kind="nth", set="world", split="train"),
    ]
    write_bank(tmp_path / "bank.jsonl", examples)
    assert read_bank(tmp_path / "bank.jsonl").items == tuple(examples)
    assert [path.name for path in tmp_path.iterdir()] == ["bank.jsonl"]


def test_the_shipped_bank_is_read() -> None:
    items = read_bank(BANKS / "default.jsonl").items
    assert len(items) == 96 and {item.task for item in items} == {"ground", "question", "choice"}


def test_a_bank_that_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"bank.jsonl: cannot be written \("):
        write_bank(tmp_path / "file" / "bank.jsonl", [EXAMPLE])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bank.jsonl"
    path.write_text('{"query": "x"}\n')
    with pytest.raises(UsageError, match=r"jsonl:1: not an example \(program: field required\)"):
        read_bank(path)
    path.write_text("\n[1]\n")
    with pytest.raises(UsageError, match=r"bank.jsonl:2: not an example .*got \[1\]"):
        read_bank(path)
    path.write_text("{oops")
    with pytest.raises(UsageError, match=r"bank.jsonl:1: not JSON"):
        read_bank(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"bank.jsonl: cannot be read as text"):
        read_bank(path)
    with pytest.raises(UsageError, match="viper ace mine"):
        read_bank(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(("field", "value"), [("program", 3), ("score", "high")])
def test_a_field_of_another_type_is_named(tmp_path: Path, field: str, value: object) -> None:
    path = tmp_path / "bank.jsonl"
    write_bank(path, [replace(EXAMPLE, **{field: value})])  # type: ignore[arg-type]
    with pytest.raises(
        UsageError, match=rf"jsonl:1: not an example \({field}: .*, got {value!r}\)"
    ):
        read_bank(path)


def test_a_whole_score_stays_one_as_runs_know_a_bank_by_a_hash_of_its_values(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bank.jsonl"
    write_bank(path, [replace(EXAMPLE, score=1), replace(EXAMPLE, score=0.5)])
    assert [repr(one.score) for one in read_bank(path).items] == ["1", "0.5"]


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
    assert ids(bank, query, WANTED) == ["train-2"]
    assert len(bank.select(Query("x"), replace(WANTED, correct=1)).correct) == 1
    assert not bank.select(query, replace(WANTED, correct=0)).correct
    both = replace(WANTED, api="mine.py + vipergpt + abstract")
    assert ids(bank, query, both) == ["train-2", "train-3"]


def test_a_query_that_names_no_sample_is_not_shown_its_own_words() -> None:
    bank = varied()
    assert ids(bank, Query(" the  red cube "), WANTED) == ["s1", "s2", "s3"]
    other = Query("the red cube", sample_id="elsewhere")
    assert ids(bank, other, WANTED) == ["s0", "s1", "s2", "s3"]


@pytest.mark.parametrize("retrieval", ["fixed", "bm25", "embeddings"])
def test_no_retrieval_shows_the_querys_own_sample(retrieval: str) -> None:
    wanted = replace(WANTED, retrieval=retrieval, embed=by_cubes)
    for number, text in enumerate(QUERIES):
        found = ids(varied(), Query(text, sample_id=f"s{number}"), wanted)
        assert sorted([*found, f"s{number}"]) == ["s0", "s1", "s2", "s3"]


def by_cubes(texts: Sequence[str]) -> np.ndarray:
    """Unit vectors that tell queries with a cube from others."""
    return np.array([[1.0, 0.0] if "cube" in text else [0.0, 1.0] for text in texts], np.float32)


@pytest.mark.parametrize(
    ("retrieval", "query", "expected"),
    [
        ("fixed", "the ring left of balls", ["s0", "s1"]),
        ("bm25", "the ring left of balls", ["s1", "s2"]),
        ("bm25", "a cone", ["s0", "s1"]),
        ("embeddings", "which cube?", ["s0", "s3"]),
        ("embeddings", "which ring?", ["s1", "s2"]),
    ],
)
def test_the_best_come_first_and_the_banks_order_breaks_ties(
    retrieval: str, query: str, expected: list[str]
) -> None:
    wanted = ExampleRequest("ground", "abstract", 2, retrieval=retrieval, embed=by_cubes)
    assert ids(varied(), Query(query), wanted) == expected


def test_queries_are_indexed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def embed(texts: Sequence[str]) -> np.ndarray:
        asked.append(len(texts))
        return by_cubes(texts)

    bank, wanted = (
        varied(),
        ExampleRequest("ground", "abstract", 2, retrieval="embeddings", embed=embed),
    )
    for _ in range(3):
        bank.select(Query("which cube?"), wanted)
    assert asked == [4, 1, 1, 1]


def test_a_retrieval_that_cannot_be_had_is_one_line() -> None:
    def request(retrieval: str) -> ExampleRequest:
        return ExampleRequest("ground", "abstract", 2, retrieval=retrieval)

    with pytest.raises(UsageError, match="needs a model: give the profile a role embedder"):
        varied().select(Query("x"), request("embeddings"))
    with pytest.raises(UnknownNameError, match="'luck'"):
        varied().select(Query("x"), request("luck"))
    assert not Bank([]).select(Query("x"), request("bm25")).correct
