"""The demonstration pool: four parts, retrieval, scores that fall, pruning, hostile records."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.ace.demonstrated import an_example, demonstrated
from viper.ace.bank import Bank, read_bank, write_bank
from viper.errors import StoreError, UsageError
from viper.prompting.ranking import Scores, by_words
from viper.schema import Query, Trace, Trial, Usage
from viper.storage.versioned import INDEX
from viper.strategies import demonstration_pool
from viper.strategies.critique import Critique
from viper.strategies.demonstration_pool import DemonstrationPool, pool_example
from viper.strategies.examples import ExampleRequest, ExampleStore, SelectedExamples
from viper.tuning.learner import ExampleOrigin, TrialPool, demonstrations_of

WANTED = ExampleRequest("ground", "abstract", 4, 4, retrieval="bm25")
QUERY = Query("the red cube", "ground")
QUERIES = ("the red cube on a ring", "two rings left of a ball", "a ball", "the red ring")


def filled(folder: Path) -> DemonstrationPool:
    pool = DemonstrationPool(folder)
    pool.add(demonstrated(query=one, sample_id=f"s{n}") for n, one in enumerate(QUERIES))
    return pool


def queries(chosen: SelectedExamples) -> tuple[list[str], list[str]]:
    return (
        [one.example.query for one in chosen.correct],
        [one.example.query for one in chosen.incorrect],
    )


def test_an_empty_pool_gives_nothing_and_makes_nothing(tmp_path: Path) -> None:
    pool: ExampleStore = DemonstrationPool(tmp_path / "pool")
    assert queries(pool.select(QUERY, WANTED)) == ([], [])
    assert not (tmp_path / "pool").exists()


def test_the_likest_queries_come_first(tmp_path: Path) -> None:
    correct, incorrect = queries(filled(tmp_path).select(QUERY, WANTED))
    assert correct[0] == "the red cube on a ring" and correct[1] == "the red ring"
    assert len(correct) == 4 and incorrect == []


def test_by_meaning_each_query_is_embedded_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def embed(texts: Sequence[str]) -> np.ndarray:
        asked.extend(texts)
        rows = np.array([[len(text), 10.0] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    pool = filled(tmp_path)
    wanted = replace(WANTED, retrieval="embeddings", embed=embed, correct=1)
    first = queries(pool.select(Query("another", "ground"), wanted))[0]
    pool.add([demonstrated(query="anothes", sample_id="s9")])
    second = queries(pool.select(Query("another", "ground"), wanted))[0]
    assert (first, second) == (["a ball"], ["anothes"])
    assert sorted(asked) == sorted([*QUERIES, "another", "anothes"])
    with pytest.raises(UsageError, match="needs a model"):
        pool.select(QUERY, replace(wanted, embed=None))


def test_requests_of_any_size_share_one_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed: list[int] = []

    def rank(texts: Sequence[str]) -> Scores:
        indexed.append(len(texts))
        return by_words(texts)

    monkeypatch.setattr(demonstration_pool, "ranker", lambda *_: rank)
    pool = filled(tmp_path)
    for count in range(1, 4):
        assert len(pool.select(QUERY, replace(WANTED, correct=count)).correct) == count
    assert indexed == [len(QUERIES)]


def test_four_parts_task_and_api_are_kept_apart(tmp_path: Path) -> None:
    pool = DemonstrationPool(tmp_path)
    pool.add(
        [
            demonstrated(query="one"),
            demonstrated(query="two", polarity="incorrect", critique="why"),
            demonstrated(query="three", part="plan"),
            demonstrated(query="four", part="plan", polarity="incorrect", critique="why"),
            demonstrated(query="five", task="question"),
            demonstrated(query="six", api="abstract+mine.py"),
        ]
    )
    assert queries(pool.select(QUERY, WANTED)) == (["one"], ["two"])
    plans = pool.select(QUERY, replace(WANTED, part="plan"))
    assert queries(plans) == (["three"], ["four"])
    wider = replace(WANTED, api="abstract+mine.py", incorrect=0, retrieval="fixed")
    assert queries(pool.select(QUERY, wider)) == (["six", "one"], [])


def test_none_of_the_querys_own_sample(tmp_path: Path) -> None:
    pool = filled(tmp_path)
    named = pool.select(replace(QUERY, sample_id="s0"), WANTED)
    worded = pool.select(Query("a  ball", "ground"), WANTED)
    assert QUERIES[0] not in queries(named)[0] and QUERIES[2] not in queries(worded)[0]


def test_scores_fall_when_an_example_misleads_and_it_is_shown_no_more(tmp_path: Path) -> None:
    pool = filled(tmp_path)
    first = pool.items()[0]
    scores = [first.score]
    for _ in range(4):
        pool.record_outcome([first.id, first.id, "gone"], solved=False)
        scores.append(next(one for one in pool.items() if one.id == first.id).score)
    assert scores == pytest.approx([2 / 3, 2 / 4, 2 / 5, 2 / 6, 2 / 7])
    assert [one.id for one in pool.below()] == [first.id]
    assert QUERIES[0] not in queries(pool.select(QUERY, WANTED))[0]
    pool.record_outcome([first.id], solved=True)
    assert pool.below() == [] and pool.items()[-1].score == pytest.approx(3 / 8)
    assert QUERIES[0] in queries(pool.select(QUERY, WANTED))[0]
    assert {one.score for one in pool.items() if one.id != first.id} == {2 / 3}


def test_of_equally_like_ones_the_better_comes_first(tmp_path: Path) -> None:
    pool = DemonstrationPool(tmp_path)
    ids = pool.add(demonstrated(program=f"x = {number}") for number in range(3))
    pool.record_outcome([ids[1]], solved=True)
    pool.record_outcome([ids[2]], solved=False)
    found = pool.select(Query("the leftmost cube?", "ground", sample_id="q"), WANTED)
    assert [one.id for one in found.correct] == [ids[1], ids[0], ids[2]]


def test_removing_is_a_version_that_can_be_undone(tmp_path: Path) -> None:
    pool = filled(tmp_path)
    before = pool.store.version
    pool.remove([pool.items()[0].id])
    assert len(pool.items()) == 3
    pool.store.roll_back(before)
    assert len(pool.items()) == 4 and len(DemonstrationPool(tmp_path).items()) == 4


def test_what_comes_twice_keeps_its_outcomes_and_its_validation(tmp_path: Path) -> None:
    pool = DemonstrationPool(tmp_path)
    (first,) = pool.add([demonstrated("train-1")])
    pool.record_outcome([first], solved=True)
    assert pool.add([demonstrated(seed=7, llm="another")]) == [first]
    (one,) = pool.items()
    assert (one.helped, one.validated_on, one.example.seed) == (1, "train-1", 0)


def test_an_empty_or_whole_update_only(tmp_path: Path) -> None:
    pool = DemonstrationPool(tmp_path)
    assert pool.add([]) == [] and pool.store.version == 0
    pool.record_outcome([], solved=True)
    assert pool.store.version == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"part": ""}, "demonstrates ''; expected plan or program"),
        ({"part": "plan", "plan": None}, "has no plan, which a correct plan needs"),
        ({"program": "  "}, "has no program"),
        ({"polarity": "incorrect"}, "has no critique, which a incorrect program needs"),
        ({"task": "auto"}, "the task 'auto'"),
        ({"plan": "x" * 20_000}, "20000 characters; at most 16000"),
    ],
)
def test_what_demonstrates_nothing(changes: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        demonstrated(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"example": 3},
        {"example": {"query": "x"}},
        {"helped": -1},
        {"misled": True},
        {"validated_on": 5},
        {"example": {**vars(an_example()), "part": "plan"}},
        {"example": {**vars(an_example()), "program": "x" * 65_000}},
        {"example": {**vars(an_example()), "surprise": 1}},
        {"example": {**vars(an_example()), "polarity": "odd"}},
        {"example": {**vars(an_example()), "critique": 3}},
    ],
)
def test_a_hostile_record_is_one_line(tmp_path: Path, changes: dict) -> None:
    pool = DemonstrationPool(tmp_path)
    pool.add([demonstrated()])
    record = {**pool.store.entries()[0].record, **changes}
    connection = sqlite3.connect(tmp_path / INDEX)
    connection.execute("UPDATE entries SET record = ?", (json.dumps(record),))
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="^demonstration [0-9a-f]{12}: ") as caught:
        DemonstrationPool(tmp_path).items()
    assert "\n" not in str(caught.value)


def test_a_bank_shows_the_correct_programs_of_an_export(tmp_path: Path) -> None:
    examples = [
        an_example(),
        an_example(part="plan"),
        an_example(polarity="incorrect", critique="why"),
    ]
    write_bank(tmp_path / "bank.jsonl", examples)
    items = read_bank(tmp_path / "bank.jsonl").items
    assert items == tuple(examples)
    shown = (
        Bank(items).select(Query("x", "ground"), ExampleRequest("ground", "abstract", 9)).correct
    )
    assert [one.example for one in shown] == examples[:1]


def a_trace(program: str = "answer = 1", plan: str | None = "1. Find it.") -> Trace:
    trial = Trial(0, program, "first", True, None, {}, (), "", 0.1, plan=plan)
    return Trace(
        Query("the cube", "ground", sample_id="s1"), "ground", "", None, None, (trial,), Usage(),
        0.1, "plan", "p", "abstract", 3,
    )  # fmt: skip


ORIGIN = ExampleOrigin("writer@1", "abc", "nth", "world", "train")


def test_growth() -> None:
    solved = demonstrations_of(a_trace(), ORIGIN)
    assert [one.example.part for one in solved] == ["plan", "program"]
    example = solved[0].example
    assert (example.plan, example.sample_id, example.set) == ("1. Find it.", "s1", "world")
    assert not solved[0].validated
    (wrong,) = demonstrations_of(a_trace(), ORIGIN, Critique("program", reason="it guesses"))
    assert (wrong.example.polarity, wrong.example.critique) == ("incorrect", "it guesses")
    planless = a_trace(plan=None)
    assert [one.example.part for one in demonstrations_of(planless, ORIGIN)] == ["program"]
    assert demonstrations_of(planless, ORIGIN, Critique("plan", reason="no")) == []
    assert demonstrations_of(a_trace(program=""), ORIGIN) == []


def test_one_on_trial_is_shown_to_its_own_query_first(tmp_path: Path) -> None:
    pool = filled(tmp_path)
    tried = [demonstrated(query=QUERY.text), pool_example(an_example(part="plan"))]
    found = TrialPool(tried, pool).select(QUERY, replace(WANTED, correct=2))
    assert queries(found)[0] == [QUERY.text, "the red cube on a ring"]
    plans = TrialPool(tried, pool).select(QUERY, replace(WANTED, part="plan"))
    assert queries(plans)[0] == ["the leftmost cube"]
