"""What a workflow holds, and when its answer was copied."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuning.agent.turns import (
    COUNT,
    DONE,
    DOUBT,
    FIND,
    GIVEN,
    STORE,
    WHOLE,
    code,
    failed,
    workflow,
)
from viper.record import RecordError, record_from_json
from viper.schema import ToolCall, Turn, Usage, to_json
from viper.strategies.explore.workflow import Workflow, outcome_of


@pytest.mark.parametrize(
    ("turns", "outcome"),
    [
        ((FIND, COUNT, STORE, DONE), "right"),
        ((GIVEN, DONE), "copied"),
        ((WHOLE, DOUBT, GIVEN, DONE), "copied"),
        ((failed("x"), GIVEN, DONE), "copied"),
        ((FIND, GIVEN, DONE), "right"),
        ((code("image_patch.simple_query('?')", "there are two"), GIVEN, DONE), "right"),
        ((code("n = 2", 2), GIVEN, DONE), "right"),
        ((GIVEN, FIND, COUNT, STORE, DONE), "right"),
        ((WHOLE, code("final_answer = answer", "3"), DONE), "wrong"),
        ((WHOLE, DONE), "unanswered"),
        ((code("final_answer = image_patch.simple_query('how many?')", "2"), DONE), "right"),
        ((code("final_answer = bool_to_yesno(2)", "2"), DONE), "copied"),
        ((code("told = '2'", "2"), code("final_answer = told", "2"), DONE), "copied"),
        ((GIVEN, code("final_answer = str(int(final_answer))", "2"), DONE), "copied"),
        (
            (
                code("n = 2\nn = len(image_patch.find('cube'))", 2),
                code("final_answer = n", "2"),
                DONE,
            ),
            "right",
        ),
        ((code("print(image_patch.simple_query('?'))", None, "there are 2"), GIVEN, DONE), "right"),
        ((code("print(patches)", None, "[ImagePatch(2, 3, 4, 5)]"), GIVEN, DONE), "copied"),
        ((code("d = {'cubes': '2'}", {"cubes": "2"}), GIVEN, DONE), "right"),
    ],
)
def test_outcomes(turns: tuple[Turn, ...], outcome: str) -> None:
    assert workflow(*turns).outcome == outcome


def test_truths_in_words_are_seen_through() -> None:
    turns = (code("final_answer = bool_to_yesno(True)", "yes"), DONE)
    assert outcome_of(turns, "yes", True) == "copied"
    looked = (code("image_patch.exists('cube')", True), *turns)
    assert outcome_of(looked, "yes", True) == "right"


def test_at_a_bound_a_constant_that_was_only_shown_is_copied() -> None:
    forced = Turn(0, "forced", "12 turns", value="2")
    assert outcome_of((code("'2'", "2"), forced), "2", True) == "copied"
    assert outcome_of((FIND, COUNT, forced), "2", True) == "right"
    assert outcome_of((code("'3'", "3"), FIND, COUNT, forced), "2", True) == "right"


def test_it_is_read_back_as_it_was_written() -> None:
    call = ToolCall(0, "find", ({"kind": "image", "fields": ["image0", 3, 4]},), {}, [1], 0.1)
    made = workflow(WHOLE, DOUBT, FIND, COUNT, STORE, DONE, tool_calls=(call,), usage=Usage(3))
    assert record_from_json(Workflow, json.loads(json.dumps(to_json(made)))) == made


@pytest.mark.parametrize(
    "change",
    [
        {"manner": "best"},
        {"outcome": "fine"},
        {"turns": 3},
        {"turns": [{"index": 0, "kind": "code", "text": 5}]},
        {"turns": [{"index": 0, "kind": "code", "text": "x", "writing": 5}]},
        {"tool_calls": ["find"]},
        {"query": {"text": [], "task": "question", "media": "image"}},
        {"seed": "0"},
    ],
)
def test_what_is_no_workflow_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RecordError):
        record_from_json(Workflow, {**to_json(workflow(STORE, DONE)), **change})
