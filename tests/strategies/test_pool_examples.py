"""Programs of the pool as in-context examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.ace.demonstrated import an_example, demonstrated
from viper.ace.bank import Bank
from viper.schema import Query
from viper.strategies.demonstration_pool import DemonstrationPool, LearnedExamples
from viper.strategies.examples import ExampleRequest


def asked(examples: LearnedExamples, text: str, count: int = 3) -> list[str]:
    task, api = an_example().task, an_example().api
    selected = examples.select(Query(text, task), ExampleRequest(task, api, count))
    return [one.example.query for one in selected.correct]


def test_an_empty_pool_changes_nothing(tmp_path: Path) -> None:
    bank = Bank([an_example(query=f"bank {n}", program=f"b{n}") for n in range(5)])
    examples = LearnedExamples(DemonstrationPool(tmp_path), bank)
    assert asked(examples, "the ball") == ["bank 0", "bank 1", "bank 2"]
    assert not tmp_path.joinpath("index.db").exists()


def test_likely_programs_of_the_pool_come_first_and_the_bank_fills_up(tmp_path: Path) -> None:
    pool = DemonstrationPool(tmp_path)
    pool.add(
        [
            demonstrated(query="the cup left of the plate", program="p1"),
            demonstrated(query="how many spoons", program="p2"),
            demonstrated(query="a wrong one", program="p3", polarity="incorrect", critique="no"),
            demonstrated(query="a plan", part="plan", plan="1. Look."),
        ]
    )
    bank = Bank([an_example(query="bank 0", program="p1"), an_example(query="bank 1")])
    found = asked(LearnedExamples(pool, bank), "how many spoons are there", 4)
    assert found == ["how many spoons", "the cup left of the plate", "bank 1"]
    assert asked(LearnedExamples(pool, bank), "how many spoons are there", 1) == ["how many spoons"]


def test_a_sample_is_never_shown_its_own_program(tmp_path: Path) -> None:
    pool = DemonstrationPool(tmp_path)
    pool.add([demonstrated(query="the cup", sample_id="s1")])
    task, api = an_example().task, an_example().api
    query = Query("another wording", task, sample_id="s1")
    examples = LearnedExamples(pool, Bank([]))
    assert examples.select(query, ExampleRequest(task, api, 3)).correct == []
    other = replace(query, sample_id="s2")
    assert len(examples.select(other, ExampleRequest(task, api, 3)).correct) == 1
