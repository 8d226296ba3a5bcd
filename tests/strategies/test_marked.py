"""Queries with marked boxes: what they accept, and who answers them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.strategies.bench import Bench
from tests.tools.test_alike import SPOTS, around, smear
from viper.errors import UsageError
from viper.reasoner import RunOptions
from viper.record import record_from_json
from viper.schema import Query, to_json

LIKE = [around(SPOTS[0])]
WRITTEN = "def execute_command(image, marked):\n    return len(marked)\n"


@pytest.mark.parametrize("query", ["how many of these?", "count all things like this one"])
def test_a_count_needs_no_language_model(query: str) -> None:
    with Bench([]) as bench:
        result = bench.reasoner.run(smear(), query, like=LIKE)
    assert (result.trace.task, result.value, result.trace.strategy) == ("question", "5", "marked")
    assert not bench.llm.calls


@pytest.mark.parametrize("query", ["find all of these", "more like these", "show me such cells"])
def test_places_are_asked_for_without_a_language_model(query: str) -> None:
    with Bench([]) as bench:
        result = bench.reasoner.run(smear(), query, like=["16,16,44,44"])
    assert result.trace.task == "tag" and result.trace.answer is not None
    assert len(result.trace.answer.value) == 5
    assert result.trace.answer.value[0]["box"] == [16, 16, 44, 44]


@pytest.mark.parametrize(
    "query", ["how many of these are broken?", "which of these is the largest?"]
)
def test_a_condition_is_written_by_the_language_model(query: str) -> None:
    with Bench([WRITTEN]) as bench:
        result = bench.reasoner.run(smear(), query, like=LIKE * 2, on_misfit="accept")
        prompt = bench.reasoner.prompt(smear(), query, like=LIKE * 2)
    assert result.value == "2"
    assert "2 example(s) are marked" in prompt and "find_like(marked)" in prompt


def test_a_prompt_without_marks_says_nothing_of_them() -> None:
    with Bench([]) as bench:
        assert "marked" not in bench.reasoner.prompt(smear(), "how many of these?")


def test_a_program_of_the_user_gets_the_marks() -> None:
    with Bench([]) as bench:
        assert bench.reasoner.execute(WRITTEN, smear(), like=LIKE * 3).value == 3


@pytest.mark.parametrize(
    ("like", "message"),
    [
        (LIKE * 5, "5 boxes; at most 4"),
        ([(0, 0, 400, 20)], "240 x 160 pixels"),
        ([(-1, 0, 20, 20)], "240 x 160 pixels"),
        ([(30, 0, 20, 20)], "x0 < x1"),
        (["1,2,3"], "'1,2,3': expected a box, x0,y0,x1,y1"),
        (["a,b,c,d"], "expected a box"),
        ([("nan", 0, 1, 1)], "x0 < x1"),
        ([7], "like '7'"),
    ],
)
def test_wrong_boxes_are_refused(like: Any, message: str) -> None:
    with Bench([]) as bench, pytest.raises(UsageError, match=message):
        bench.reasoner.run(smear(), "how many of these?", like=like)


def test_marks_need_one_picture() -> None:
    with Bench([]) as bench, pytest.raises(UsageError, match="has images"):
        bench.reasoner.run([smear(), smear()], "how many of these?", like=LIKE)


def test_a_stored_query_keeps_its_marks_and_an_old_one_has_none() -> None:
    query = Query("how many?", like=tuple(LIKE))
    stored = to_json(query)
    assert record_from_json(Query, stored) == query
    del stored["like"]
    assert record_from_json(Query, stored).like == ()


def test_options_keep_boxes_when_they_are_changed() -> None:
    options = RunOptions(like=["1,2,3,4"]).changed(task="tag")
    assert options.like == ((1.0, 2.0, 3.0, 4.0),)


def test_checks_move_the_marks_with_the_picture() -> None:
    with Bench([]) as bench:
        result = bench.reasoner.run(smear(), "how many of these?", like=LIKE, checks=True)
    assert [check.name for check in result.trace.checks][:2] == ["mirrored", "brighter"]
    assert all(check.passed for check in result.trace.checks)
