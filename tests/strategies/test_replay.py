"""Programs run once more with the results in their traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from viper.api.library import Library, library_for
from viper.reasoner import RunOptions
from viper.record import record_from_json
from viper.run_result import RunResult
from viper.schema import ToolCall, Trace, to_json
from viper.strategies.replay import MOST_EVENTS, Event, Replay, Replayer, add_reports

COUNTING = """def execute_command(image):
    found = ImagePatch(image).find('cube')
    names = []
    for patch in found:
        if patch.horizontal_center > 50:
            names.append(patch.simple_query('what color is this?'))
        elif names:
            names.append('none')
    total, (first, *rest) = len(names), names + ['end']
    total += 1
    return str(total)
"""


@pytest.fixture(scope="module")
def replayer() -> Iterator[Replayer]:
    with Replayer(Library()) as made:
        yield made


def answered(program: str, media: object = None, **options: object) -> RunResult:
    with Bench([program], trials=1) as bench:
        asked = RunOptions(**options)  # type: ignore[arg-type]
        return bench.reasoner.run(picture() if media is None else media, "what color?", asked)


def again(replayer: Replayer, result: RunResult, number: int = -1) -> Replay:
    trace = record_from_json(Trace, json.loads(json.dumps(to_json(result.trace))))
    trial = trace.trials[number]
    return replayer.replay(trial.program, trial.tool_calls, trace.query, result.media)


def told(replay: Replay) -> list[tuple[int | None, str, object]]:
    return [
        (one.line, one.what, one.value if one.call is None else f"call {one.call}")
        for one in replay.events
    ]


def test_every_line_tells_what_it_produced(replayer: Replayer) -> None:
    found = told(again(replayer, answered(COUNTING)))
    left = {"kind": "patch", "fields": ["image0", 10, 10, 20, 20]}
    right = {"kind": "patch", "fields": ["image0", 70, 35, 90, 55]}
    assert found == [
        (2, "", "call 0"),
        (2, "found", [left, right]),
        (3, "names", []),
        (4, "for patch", left),
        (5, "if", False),
        (7, "if", False),
        (4, "for patch", right),
        (5, "if", True),
        (6, "", "call 1"),
        (6, "", None),
        (9, "total", 1),
        (9, "first", "red"),
        (9, "rest", ["end"]),
        (10, "total", 2),
        (11, "return", "2"),
    ]


def test_a_failed_program_tells_until_it_fails(replayer: Replayer) -> None:
    program = "def execute_command(image):\n    n = 3\n    return [][n]\n"
    result = answered(program)
    assert result.failure is not None
    assert told(again(replayer, result)) == [(2, "n", 3)]


def test_tools_fail_again_as_they_did(replayer: Replayer) -> None:
    program = (
        "def execute_command(image):\n"
        "    try:\n"
        "        ImagePatch(image).find('cube')\n"
        "    except Exception as error:\n"
        "        said = str(error)\n"
        "    return 'red'\n"
    )
    result = answered(program)
    (call,) = result.trace.trials[0].tool_calls
    failed = replace(call, result=None, error="out of memory")
    replay = replayer.replay(program, [failed], result.trace.query, result.media)
    assert (5, "said", "out of memory") in told(replay)


def test_pixels_come_from_the_media(replayer: Replayer) -> None:
    program = (
        "def execute_command(image):\n"
        "    part = ImagePatch(image).crop(0, 0, 10, 5)\n"
        "    mean = part.cropped_image.mean()\n"
        "    return str(mean)\n"
    )
    whole = np.full((60, 100, 3), 8, np.uint8)
    whole[55:, :10] = 200
    assert (3, "mean", 200.0) in told(again(replayer, answered(program, whole)))


def test_videos_and_their_segments(replayer: Replayer) -> None:
    program = (
        "def execute_command(video, question, possible_answers):\n"
        "    part = VideoSegment(video).get_video_segment_of_event('the cube stops')\n"
        "    frame = part.frame_from_index(0)\n"
        "    return possible_answers[0]\n"
    )
    clip = np.zeros((8, 60, 100, 3), np.uint8)
    result = answered(program, clip, task="choice", options=("a", "b"))
    found = told(again(replayer, result))
    assert (2, "part", {"kind": "segment", "fields": ["video0", 2, 4]}) in found
    assert (3, "frame", {"kind": "patch", "fields": ["video0#2", 0, 0, 100, 60]}) in found


def test_another_way_than_the_trace_ends_the_replay(replayer: Replayer) -> None:
    result = answered(COUNTING)
    (trial,) = result.trace.trials
    fewer = replayer.replay(trial.program, trial.tool_calls[:1], result.trace.query, result.media)
    assert not fewer.whole and fewer.events[-1] == Event(5, "if", True)
    other = ToolCall(0, "exists", (), {}, True, 0.0)
    changed = replayer.replay(trial.program, [other], result.trace.query, result.media)
    assert changed == Replay((), whole=False)


def test_a_loop_without_end_is_cut(replayer: Replayer) -> None:
    program = "def execute_command(image):\n    n = 0\n    while True:\n        n += 1\n"
    result = answered("def execute_command(image):\n    return 'red'\n")
    cut = replayer.replay(program, [], result.trace.query, result.media)
    assert not cut.whole and len(cut.events) == MOST_EVENTS


def test_what_is_no_program_or_knows_our_names_is_not_run(replayer: Replayer) -> None:
    for program in ("def (", "viper_line_report(1, '', 2)", "viper_line_value = 3"):
        assert add_reports(program) is None
    result = answered("def execute_command(image):\n    return 'red'\n")
    nothing = replayer.replay("def (", [], result.trace.query, result.media)
    assert nothing == Replay((), whole=False)


def test_a_hostile_program_is_held_by_the_same_policy(replayer: Replayer) -> None:
    program = "def execute_command(image):\n    n = 1\n    return ().__class__.__bases__\n"
    result = answered("def execute_command(image):\n    return 'red'\n")
    assert replayer.replay(program, [], result.trace.query, result.media).events == ()


def test_routines_of_a_file_are_there(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from viper import routine\n\n\n@routine\ndef doubled(count: int) -> int:\n"
        '    """Twice a count.\n\n    Args:\n        count: how many.\n\n    Returns:\n'
        "        int: twice as many.\n\n    Examples:\n        >>> # how many twice?\n"
        '        >>> def execute_command(image):\n        ...     return doubled(2)\n    """\n'
        "    return 2 * count\n"
    )
    library = library_for("abstract+own.py", tmp_path)
    program = "def execute_command(image):\n    n = doubled(4)\n    return str(n)\n"
    result = answered("def execute_command(image):\n    return 'red'\n")
    with Replayer(library) as own:
        replay = own.replay(program, [], result.trace.query, result.media)
    assert told(replay) == [(2, "n", 8), (3, "return", "8")]


def test_a_trace_survives_json() -> None:
    trace = answered(COUNTING).trace
    assert record_from_json(Trace, json.loads(json.dumps(to_json(trace)))) == trace
