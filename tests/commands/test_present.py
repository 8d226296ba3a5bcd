"""A run as a person reads it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest

from tests.strategies.bench import Bench, picture
from tests.strategies.test_program import FAINT
from tests.tuning.agent.turns import DONE, DOUBT, code
from viper.commands.present import (
    answer_line,
    call_line,
    details,
    failure_sentence,
    print_result,
    turn_lines,
)
from viper.errors import ViperError
from viper.schema import RunWarning, ToolCall


def test_a_turn_line_by_line_without_what_a_terminal_would_obey() -> None:
    several = code("for one in patches:\n    print(one)", result="a\x1b[2J\nb")
    lines = list(turn_lines(several))
    assert lines[0] == "1 code"
    assert [line.strip() for line in lines[1:]] == [
        "for one in patches:",
        "print(one)",
        "> a\\x1b[2J",
        "> b",
    ]
    assert len(lines[2]) - len(lines[2].lstrip()) > len(lines[1]) - len(lines[1].lstrip())
    assert list(turn_lines(DONE)) == ["1 done"]
    assert next(turn_lines(DOUBT)) == "1 thought, by a checker"


def test_programs_have_colors_where_the_terminal_shows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Bench([FAINT]) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    plain = [f"    {line}" for line in FAINT.splitlines()]
    assert list(details(result))[2 : 2 + len(plain)] == plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = list(details(result))[2 : 2 + len(plain)]
    assert [click.unstyle(line) for line in shown] == plain and shown != plain
    assert "\x1b" in next(line for line in turn_lines(code("return 1")) if "return" in line)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("\x1b[9" in line for line in details(result))


def test_a_search_that_found_nothing_is_one_sentence() -> None:
    missing = FAINT.replace("faint ball", "pyramid")
    with Bench([FAINT, missing], trials=1, self_tune=False) as bench:
        faint = bench.reasoner.run(picture(), "the faint ball")
        none = bench.reasoner.run(picture(), "the pyramid")
    expected = "Nothing like 'faint ball' was found (best candidate 0.15, needed 0.40)."
    assert answer_line(faint) == f"no answer: {expected}"
    assert answer_line(none).startswith("no answer: runtime at line 5: ")


def test_a_list_that_a_threshold_shortened_is_one_sentence() -> None:
    third = FAINT.replace("faint ball", "ring").replace("patches[0]", "patches[1]")
    with Bench([third], trials=1, self_tune=False) as bench:
        result = bench.reasoner.run(picture(), "the second ring")
    assert answer_line(result) == (
        "no answer: Fewer things like 'ring' were found than the program needs "
        "(best candidate 0.25, needed 0.40)."
    )


def test_a_fallback_that_fails_as_well_does_not_hide_the_failure() -> None:
    with Bench([FAINT], trials=1, self_tune=False) as bench:
        trace = bench.reasoner.run(picture(), "the faint ball").trace
    fallback = replace(trace.trials[0], correction="fallback", tool_calls=(), failure=None)
    both = replace(trace, trials=(*trace.trials, fallback))
    assert failure_sentence(both).startswith("Nothing like 'faint ball' was found")


def test_a_run_without_an_answer_prints_its_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    with Bench([FAINT], trials=1, self_tune=False) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    unknown = RunWarning("unknown_words", "The models do not know 'faint'.")
    doubtful = replace(result, trace=replace(result.trace, warnings=(unknown,)))
    assert print_result(doubtful, None, as_json=False, quiet=True) == 1
    assert "do not know 'faint'" in capsys.readouterr().err


def test_trials_are_folded_and_quiet_prints_the_answer_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Bench([FAINT]) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    lines = list(details(result))
    assert lines[0] == "2 trials, 1 failed (-v prints each)"
    assert not any(line.startswith("trial ") for line in lines)
    assert print_result(result, None, as_json=False, quiet=True) == 0
    out, err = capsys.readouterr()
    assert out.startswith("box [") and err.startswith("warning: ")
    assert len(err.splitlines()) == 1


def test_a_picture_that_cannot_be_written_does_not_cost_the_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Bench([FAINT]) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    (tmp_path / "file").touch()
    with pytest.raises(ViperError):
        print_result(result, tmp_path / "file" / "answer.png", as_json=False)
    assert capsys.readouterr().out.startswith("box [")


def test_tool_calls_show_boxes_from_the_top_left_corner() -> None:
    program = (
        "def execute_command(image):\n    return ImagePatch(image).find('cube')[0].simple_query()"
    )
    with Bench([]) as bench:
        result = bench.reasoner.execute(program, picture(), "?")
    asked = next(
        line.strip() for line in details(result) if "simple_query(" in line and "->" in line
    )
    assert asked.startswith("simple_query(patch at (10, 40, 20, 50), None) -> ")
    find = next(line.strip() for line in details(result) if line.strip().startswith("find("))
    assert "[patch at (10, 40, 20, 50), patch at (70, 5, 90, 25)]" in find


def test_answer_and_tool_calls_of_a_json_object_count_from_the_same_corner(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = "def execute_command(image):\n    return ImagePatch(image).find('cube')[0]"
    with Bench([]) as bench:
        result = bench.reasoner.execute(program, picture(), "?", task="ground")
    print_result(result, None, as_json=2)
    record = json.loads(capsys.readouterr().out)
    patch = {"kind": "patch", "picture": "image0", "box": [10, 40, 20, 50]}
    assert (record["box"], record["schema"]) == ([10, 40, 20, 50], 2)
    assert record["tool_calls"][0]["result"][0] == patch
    assert record["trials"][0]["tool_calls"][0]["result"][0] == patch
    print_result(result, None, as_json=1)
    old = json.loads(capsys.readouterr().out)
    assert old["tool_calls"][0]["result"][0] == {
        "kind": "patch",
        "fields": ["image0", 10, 10, 20, 20],
    }


def test_a_patch_that_a_program_invented_has_no_place() -> None:
    call = ToolCall(0, "find", ({"kind": "patch", "fields": ["image9", "a"]},), {}, None, 0.0)
    assert call_line(call, {"image0": (100, 60)}).startswith("find(patch in image9) -> None")


CLEAR = "\x1b]0;title\x07\x1b[2J\u202e"


def test_what_a_program_says_reaches_no_terminal_raw(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bench = Bench([])
    program = f"print({CLEAR!r})\nanswer = {CLEAR!r}"
    assert print_result(bench.reasoner.execute(program, picture()), None, as_json=False) == 0
    failing = bench.reasoner.execute(f"raise ValueError({CLEAR!r})", picture())
    assert print_result(failing, None, as_json=False) == 1
    asking = bench.reasoner.execute(f"answer = ImagePatch(image).find({CLEAR!r})", picture())
    print_result(asking, None, as_json=False)
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert "\x1b]" not in text and "\x1b[2J" not in text and "\u202e" not in text
    assert "\\x1b]0;title" in shown.out
