"""Records as JSON: nothing of a trace is lost on the way out, nothing foreign comes in."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from viper.errors import UsageError
from viper.record import (
    RecordError,
    RunRecord,
    outside,
    record_from_json,
    record_from_toml,
    result_record,
    trace_from_record,
    value_text,
)
from viper.schema import (
    Answer,
    Check,
    Failure,
    Query,
    RunWarning,
    ToolCall,
    Trace,
    Trial,
    Turn,
    Usage,
    to_json,
)

FAILURE = Failure("tool", "no box", 2, "x = 1", "f", "ToolError", "find", "threshold", 0)
CALL = ToolCall(
    index=3,
    tool="find",
    unknown="a cup of tea",
    args=({"kind": "image", "fields": ["image0", 40, 30]}, "cube"),
    kwargs={"limit": 2},
    result=[{"kind": "patch", "fields": ["image0", 1.5, 20.25, 3, 29, "", "cube"]}],
    seconds=0.5,
    cached=True,
    rejected_by="detector.threshold",
    shortened_by="detector.limit",
    judged_by="detector.threshold",
    scores=(0.9, 0.1),
    error="refused",
    line=2,
    taught=("loc: pyramid",),
    note="one box was dropped",
)
TRIAL = Trial(
    index=1,
    program="def execute_command(image):\n    return 1",
    correction="self_tune",
    ok=True,
    failure=FAILURE,
    thresholds={"detector.threshold": 0.5},
    tool_calls=(CALL,),
    stdout="hello",
    reply="Two cubes.",
    seconds=1.5,
    seed=7,
    temperature=0.2,
    logprob=-0.5,
    prompt="Write a program",
    writing=Usage(1, 2, 3, 4, 0.5),
    writing_seconds=0.25,
    plan="1. look",
    plan_prompt="Write a plan",
    demonstrations=("d1",),
    rests_on_nothing=(2,),
    sizes={"image0": (40, 30)},
)
TRACE = Trace(
    query=Query("where is it?", "ground", "images", ("a", "b"), "s1"),
    task="ground",
    task_reason="asked",
    answer=Answer("a", "box", 1, (1.0, 2.0, 3.0, 4.0), 0, {"why": ["seen", 1]}),
    failure=None,
    trials=(replace(TRIAL, index=0), TRIAL),
    usage=Usage(5, 6, 7, 8, None),
    seconds=2.5,
    strategy="seek",
    profile="embedded",
    api="abstract",
    seed=3,
    path=({"action": "search", "of": [1, 2]},),
    turns=(Turn(0, "code", "x = 1", "1", FAILURE, (3,), {"x": [1]}, 0.1, Usage(1), "checker"),),
    left_out=("depth",),
    fallback="vqa",
    examples_shown=("e1", "e2"),
    examples_left_out=2,
    chosen=1,
    votes=(("a", 2), ("b", 1)),
    warnings=(RunWarning("guessed", "Nothing was found.", {"calls": [2]}),),
    guess=Answer("b", "text"),
    checks=(Check("relation", "mirrored", False, "a", "b"),),
)


def names(kind: Any) -> set[str]:
    """The fields that are stored."""
    return {one.name for one in fields(kind) if "exclude" not in one.metadata}


@pytest.mark.parametrize("record", [TRACE, TRIAL, CALL], ids=["trace", "trial", "call"])
def test_the_sample_has_a_value_in_every_field(record: Any) -> None:
    empty = {name for name in names(record) if getattr(record, name) in (None, "", ())}
    assert empty <= {"failure"}, "give it one, so that these tests speak of the new field"


def test_what_is_not_stored_is_not_described_either() -> None:
    schema = TypeAdapter(RunRecord).json_schema(mode="serialization")
    assert set(schema["$defs"]["Trial"]["properties"]) == names(Trial)


def test_a_trace_comes_back_as_it_was() -> None:
    again = record_from_json(Trace, json.loads(json.dumps(to_json(TRACE))))
    assert to_json(again) == to_json(TRACE)
    assert (again.trials, again.answer, again.votes) == (TRACE.trials, TRACE.answer, TRACE.votes)


def test_every_field_of_a_run_is_printed_and_described() -> None:
    printed = json.loads(json.dumps(result_record(TRACE, schema=1)))
    assert (names(Trace) - {"left_out"}) | {"api_left_out"} <= set(printed)
    assert printed["trials"] == to_json(TRACE.trials) and set(printed["trials"][1]) == names(Trial)
    assert printed["tool_calls"] == [to_json(CALL)] and set(to_json(CALL)) == names(ToolCall)
    assert set(printed) | {"picture"} == names(RunRecord)
    record_from_json(RunRecord, printed)


REFERENCES = [
    (["image0", 1.5, 20.25, 3, 29], {"picture": "image0", "box": [1.5, 1, 3, 9.75]}),
    (["image9", 1, 2, 3, 4], {"picture": "image9", "box": None}),
    (["image0", "a"], {"picture": "image0", "box": None}),
    (["video0#3", 0, 5, 3, 10, "outline-1", "cup"],
     {"picture": "video0#3", "box": [0, 10, 3, 15], "outline": "outline-1", "label": "cup"}),
    (["clip-500-1000-8#3", 0, 5, 3, 10], {"picture": "clip-500-1000-8#3", "box": [0, 10, 3, 15]}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "shown"), REFERENCES)
def test_references_leave_with_boxes_from_the_top_left_corner(fields: Any, shown: Any) -> None:
    stored, sizes = {"kind": "patch", "fields": fields}, {"image0": (40, 30), "video0": (40, 20)}
    assert outside({"a": [stored]}, sizes) == {"a": [{"kind": "patch", **shown}]}


@pytest.mark.parametrize(
    ("kind", "fields", "text"),
    [
        ("patch", ["image0", 1.5, 20.25, 3, 29, "", "cup"], "patch 'cup' at (1.5, 1, 3, 9.75)"),
        ("patch", ["edit-1", 1, 2, 3, 4], "patch in edited picture"),
        ("view", ["image1", 1, 2, 3, 4], "view at (1, 2, 3, 4) in image1"),
        ("image", ["image0", 40, 30], "image0 (40 x 30)"),
        ("segment", ["video0", 3, 8], "frames 3 to 7"),
        ("video", ["video0", 64, 40, 30], "video"),
    ],
)
def test_references_are_a_few_words_for_people(kind: str, fields: Any, text: str) -> None:
    stored = {"kind": kind, "fields": fields}
    shown = outside(stored, {"image0": (40, 30)})
    assert value_text({"a": [shown]}) == f"{{a: [{text}]}}"


@pytest.mark.parametrize(
    "value", [{"kind": "patch", "fields": 3}, {"kind": ["patch"]}, {"kind": 1}]
)
def test_mappings_of_a_program_are_no_references(value: Any) -> None:
    assert value_text(value).startswith("{kind: ")
    assert outside(value, {}) == value


@pytest.mark.parametrize("schema", [1, 2])
def test_a_run_record_of_either_schema_can_be_read(schema: int) -> None:
    printed = json.loads(json.dumps(result_record(TRACE, schema=schema)))
    assert printed["schema"] == schema
    again = trace_from_record(printed)
    assert again.trials[0].program == TRIAL.program and again.schema == TRACE.schema
    assert result_record(again)["tool_calls"] == result_record(TRACE)["tool_calls"]
    box = printed["tool_calls"][0]["result"][0].get("box")
    assert box == (None if schema == 1 else [1.5, 1, 3, 9.75])


def test_the_keys_that_are_no_fields_of_the_trace_keep_their_meaning() -> None:
    printed = result_record(TRACE, ["out.png"])
    told = {
        "query": "where is it?",
        "answer": "a",
        "answer_kind": "box",
        "choice_index": 1,
        "box": [1.0, 2.0, 3.0, 4.0],
        "image_index": 0,
        "info": {"why": ["seen", 1]},
        "images": ["out.png"],
        "program": TRIAL.program,
        "plan": "1. look",
        "votes": [{"answer": "a", "count": 2}, {"answer": "b", "count": 1}],
        "api_left_out": ["depth"],
    }
    assert {key: printed[key] for key in told} == told


def test_what_does_not_apply_is_null() -> None:
    printed = result_record(replace(TRACE, answer=None, failure=FAILURE, turns=(), path=()))
    for key in ("answer", "answer_kind", "choice_index", "box", "info", "turns", "path"):
        assert printed[key] is None
    assert printed["failure"] == to_json(FAILURE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": "many"}, r"^seed: input should be a valid integer.*, got 'many'$"),
        ({"trials": [{}]}, r"^trials\.0\.index: field required$"),
        ({"query": "where?"}, r"^query: input should be .*, got 'where\?'$"),
        ({"votes": [["a", "b"]]}, r"^votes\.0\.1: input should be a valid integer"),
    ],
)
def test_the_error_names_the_key_and_the_value(change: dict[str, Any], said: str) -> None:
    with pytest.raises(RecordError, match=said):
        record_from_json(Trace, {**to_json(TRACE), **change})


def test_another_value_than_an_object_is_refused() -> None:
    with pytest.raises(RecordError, match="got 3"):
        record_from_json(Trace, 3)


def test_values_of_a_later_version_and_odd_texts_are_read() -> None:
    values = {**to_json(CALL), "mood": "good", "scores": ["nan"], "tool": "half \ud800 a pair"}
    call = record_from_json(ToolCall, values)
    assert call.tool == "half \ud800 a pair" and call.scores[0] != call.scores[0]


def test_a_new_field_needs_no_more_than_its_declaration() -> None:
    @dataclass(frozen=True)
    class Later(Trace):
        mood: str = field(default="good")

    later = Later(**{one.name: getattr(TRACE, one.name) for one in fields(TRACE)}, mood="bad")
    assert result_record(later)["mood"] == "bad"
    assert record_from_json(Later, json.loads(json.dumps(to_json(later)))).mood == "bad"


def test_programs_and_the_command_line_start_without_the_validator() -> None:
    code = (
        "import sys, viper.cli, viper.record, viper.sandbox.zygote\n"
        "print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@dataclass(frozen=True)
class Box:
    __pydantic_config__ = {"extra": "forbid"}

    side: float
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class ViewedRun:
    __pydantic_config__ = {"extra": "forbid"}

    name: str
    boxes: dict[str, Box] = field(default_factory=dict)
    count: int = 0


def test_a_file_of_toml_is_a_record(tmp_path: Path) -> None:
    path = tmp_path / "shelf.toml"
    path.write_text('count = 2\n[boxes.small]\nside = 1\ntags = ["a"]\n')
    shelf = record_from_toml(ViewedRun, path, name="shelf")
    assert shelf == ViewedRun("shelf", {"small": Box(1.0, ("a",))}, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('\ncount = "2"', r":2: count: input should be a valid integer, got '2'$"),
        ("count = true", ":1: count: input should be a valid integer, got True$"),
        ("# count\n\ncolour = 3", ":3: colour: unknown key; known: name, boxes, count$"),
        ("[boxes.a]\nside = 1\n[boxes.b]\n\nside = 'x'", r":5: boxes\.b\.side: .*, got 'x'$"),
        ("[boxes]\na = { side = 1, depth = 2 }", r":2: boxes\.a\.depth: unknown key$"),
        ("[boxes.a]\ntags = ['x', 3]", r":1: boxes\.a\.side: field required$"),
        ("[boxes", r"cannot be read as TOML \("),
    ],
)
def test_what_is_wrong_in_a_file_of_toml_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "shelf.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"shelf.toml.*{said}") as caught:
        record_from_toml(ViewedRun, path, name="shelf")
    assert "\n" not in str(caught.value)
