"""Critiques read from what language models write."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viper.record import RecordError, record_from_json
from viper.schema import to_json
from viper.strategies.critique import Critique, CritiqueError
from viper.tuning.language_reflector import parse_critique

TOOLS = {0: "find", 1: "compute_depth", 2: "find", 3: "simple_query"}

RED = Critique("tool:simple_query", 3, "it is red", "red")


@pytest.mark.parametrize(
    "text",
    [
        "location: tool\ntool: simple_query\nstep: 3\nreason: it is red\ndesired: red",
        "Desired: red\nREASON: it is red\nLocation: tool:simple_query\nStep: 3",
        "Sure!\n\n**Location:** tool `simple_query`\n**Step:** 3\n**Reason:** it is red\n"
        "**Desired:** red",
        "- location = simple_query\n- why = it is red\n- expected = red",
        "1. Location: tool\n2. Tool: `simple_query`\n3. Step: step 3 of 4\n4. Reason: it is red\n"
        "5. Desired output: red",
        '```json\n{"location": "tool", "tool": "simple_query", "step": 3, "reason": "it is red", '
        '"desired": "red"}\n```',
        'I think: {"why": "it is red", "Location": "tool: simple_query", "desired": "red"}',
        "step: 3\nreason: it is\n  red\ndesired: red\nlocation: tool",
        "location: the tool simple_query at step 3\r\nreason: it is red\r\ndesired: red\r\n",
    ],
)
def test_many_ways_of_saying_the_same(text: str) -> None:
    assert parse_critique(text, TOOLS) == RED


def test_missing_fields_stay_empty() -> None:
    assert parse_critique("location: program") == Critique("program")
    assert parse_critique("LOCATION: None\nreason: all is well").location == "none"
    assert parse_critique("fault: the plan", TOOLS).location == "plan"
    assert parse_critique("location: tool:find", TOOLS) == Critique("tool:find")


def test_a_step_or_tool_that_the_run_did_not_make_is_not_believed() -> None:
    assert parse_critique("location: tool:find\nstep: 1", TOOLS).step is None
    assert parse_critique("location: tool:find\nstep: 99", TOOLS).step is None
    assert parse_critique("location: tool:find\nstep: 2", TOOLS).step == 2
    with pytest.raises(CritiqueError, match="no location"):
        parse_critique("location: tool\ntool: segment_all", TOOLS)


@pytest.mark.parametrize(
    "text", ["", "I cannot say.", "location:", "{}", "[1, 2]", "{" * 5000, "reason: it is red"]
)
def test_nothing_to_read_is_an_error_of_its_own(text: str) -> None:
    with pytest.raises(CritiqueError) as caught:
        parse_critique(text if text != "location:" else "location: somewhere", TOOLS)
    assert caught.value.code == "critique"
    assert "\n" not in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_a_critique_or_that_error(text: str) -> None:
    for said in (text, f"location: {text}", f'{{"location": "tool", "step": {text}}}'):
        with contextlib.suppress(CritiqueError):
            assert isinstance(parse_critique(said, TOOLS), Critique)


def test_code_in_a_reply_is_text() -> None:
    found = parse_critique("location: program\ndesired: __import__('os').getcwd()")
    assert found.desired == "__import__('os').getcwd()"


def test_a_critique_survives_json() -> None:
    patch = {"kind": "patch", "fields": ["image0", 1, 2, 3, 4]}
    one = Critique.of_tool("find", 2, "a box is missing", [patch])
    assert record_from_json(Critique, json.loads(json.dumps(to_json(one)))) == one
    assert (one.tool, one.speaks) == ("find", True)
    assert (Critique("none").tool, Critique("none").speaks) == (None, False)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"location": 3},
        {"location": "somewhere else"},
        {"location": "tool:"},
        {"location": "find"},
        {"location": "tool:find", "step": "1"},
        {"location": "tool:find", "step": True},
        {"location": "tool:find", "step": -1},
    ],
)
def test_a_record_that_is_no_critique(values: dict[str, object]) -> None:
    with pytest.raises(RecordError):
        record_from_json(Critique, values)
