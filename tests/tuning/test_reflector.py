"""Programs run again with one answer of one tool changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from viper.errors import UsageError
from viper.record import record_from_json
from viper.schema import Trace, to_json
from viper.strategies.answers import is_desired
from viper.tuning.case import Case
from viper.tuning.reflector import (
    Intervention,
    InterventionReflector,
    Reflector,
    Weighing,
    questions,
)

RING = """def execute_command(image):
    rings = ImagePatch(image).find('ring')
    return str(len(rings))
"""
"""The detector sees two rings, one of them (.25) below its threshold of .4."""

RIGHTMOST = """def execute_command(image):
    found = ImagePatch(image).find('ring')
    return max(found, key=lambda patch: patch.horizontal_center)
"""

TWICE = """def execute_command(image):
    image_patch = ImagePatch(image)
    first = image_patch.find('ring')
    second = image_patch.find('ring')
    return str(len(first) + len(second))
"""

COLOUR = """def execute_command(image):
    cube = ImagePatch(image).find('cube')[0]
    return cube.simple_query('what color is this?')
"""

EVENT = """def execute_command(video, question, possible_answers):
    after = VideoSegment(video).get_video_segment_after_event('the cube stops')
    return select_answer(after.caption_video('what happens?'), question, possible_answers)
"""


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench([]) as made:
        yield made


def case(bench: Bench, program: str, desired: Any, media: Any = None, **asked: Any) -> Case:
    shown = picture() if media is None else media
    options = {"task": "question", "self_tune": False, **asked}
    result = bench.reasoner.execute(program, shown, "what is it?", **options)
    trace = record_from_json(Trace, json.loads(json.dumps(to_json(result.trace))))
    found = Case.of(trace, result.media, desired)
    assert found is not None
    return found


def search(bench: Bench, one: Case, **weighing: Any) -> Any:
    wide = {"program": 8.0, "margin": 4.0, **weighing}
    return Intervention(bench.reasoner.components, Weighing(**wide)).search(one)


def test_a_missed_box_is_found_and_put_back(bench: Bench) -> None:
    found = search(bench, case(bench, RING, "2"))
    assert [(one.tool, one.calls) for one in found.explanations] == [("find", (0,))]
    # log-odds of the threshold .4 less those of the box's score .25
    assert found.explanations[0].cost == pytest.approx(0.6931, abs=1e-3)
    assert found.explanations[0].result[-1] == {
        "kind": "patch",
        "fields": ["image0", 40, 45, 50, 55],
    }


def test_a_changed_result_reaches_the_program_as_patches(bench: Bench) -> None:
    desired = (40.0, 5.0, 50.0, 15.0)
    found = search(bench, case(bench, RIGHTMOST, desired, task="ground"))
    assert found.explanations[0].tool == "find"
    again = search(bench, case(bench, RIGHTMOST, (10.0, 40.0, 20.0, 50.0), task="ground"))
    assert again.already and again.runs == 1


def test_what_is_asked_twice_is_one_question(bench: Bench) -> None:
    one = case(bench, TWICE, "4")
    assert questions(one.trial.tool_calls) == [(0, 1)]
    found = search(bench, one)
    assert found.explanations[0].calls == (0, 1)
    assert search(bench, case(bench, TWICE, "3")).explanations == ()


def test_an_answer_in_words_is_tried_though_no_list_has_it(bench: Bench) -> None:
    found = search(bench, case(bench, COLOUR, "teal"))
    best = found.explanations[0]
    assert (best.tool, best.result) == ("simple_query", "teal")


def test_videos_and_choices(bench: Bench) -> None:
    frames = np.full((8, 20, 30, 3), 90, np.uint8)
    one = case(bench, EVENT, 0, frames, task="choice", options=["the cube stops", "the ball falls"])
    found = search(bench, one, edits=False).explanations
    tools = {explanation.tool for explanation in found}
    assert tools == {"locate_event", "caption_video", "select_answer"}


def test_a_search_is_the_same_every_time_and_keeps_its_budget(bench: Bench) -> None:
    one = case(bench, COLOUR, "green")
    first, second = search(bench, one), search(bench, one)
    assert (first.explanations, first.runs) == (second.explanations, second.runs)
    short = search(bench, one, runs=1)
    assert (short.complete, short.runs) == (False, 1)
    assert not search(bench, one, time_s=0.0).complete


def test_a_failed_program_is_explained_too(bench: Bench) -> None:
    faint = COLOUR.replace("'cube'", "'faint ball'")
    one = case(bench, faint, "red")
    assert one.answer is None
    found = search(bench, one)
    assert [explanation.tool for explanation in found.explanations] == ["find"]


def reflect(bench: Bench, one: Case, **weighing: float) -> Any:
    reflector = InterventionReflector(bench.reasoner.components, Weighing(**weighing))
    assert isinstance(reflector, Reflector)
    return reflector.reflect(one)


def test_the_tool_is_blamed_with_what_it_should_have_given(bench: Bench) -> None:
    found = reflect(bench, case(bench, RING, "2"))
    assert (found.location, found.step, len(found.desired)) == ("tool:find", 0, 2)


def test_the_program_is_blamed_where_no_change_helps(bench: Bench) -> None:
    found = reflect(bench, case(bench, RING, "17"))
    assert (found.location, found.step) == ("program", None)


def test_nothing_is_blamed_without_reason(bench: Bench) -> None:
    assert not reflect(bench, case(bench, RING, None)).speaks
    assert not reflect(bench, case(bench, RING, "1")).speaks
    # As plausible as a wrong program is no reason for either.
    found = reflect(bench, case(bench, RING, "2"), program=0.7, margin=0.5)
    assert (found.location, "program" in found.reason) == ("none", True)


def test_another_program_explains_the_answer_where_no_tool_does(bench: Bench) -> None:
    leftmost = RIGHTMOST.replace("'ring'", "'cube'").replace("max", "min")
    one = case(bench, leftmost, (70.0, 5.0, 90.0, 25.0), task="ground")
    found = reflect(bench, one)
    assert (found.location, "max(" in str(found.desired)) == ("program", True)
    # With the program left as it is, only the order of two sure boxes could be at fault.
    tools = {each.tool for each in search(bench, one, edits=False).explanations}
    assert tools == {"find"}


def test_a_program_without_calls(bench: Bench) -> None:
    found = reflect(bench, case(bench, "def execute_command(image):\n    return 'red'", "blue"))
    assert found.location == "program"


@pytest.mark.parametrize(
    ("task", "desired", "more"),
    [
        ("choice", 2, {"options": ["a", "b"]}),
        ("choice", "a", {"options": ["a", "b"]}),
        ("ground", (1, 2, 3), {}),
        ("ground", "box", {}),
        ("statement", "yes", {}),
    ],
)
def test_a_desired_answer_of_the_wrong_kind_is_refused(
    bench: Bench, task: str, desired: Any, more: dict[str, Any]
) -> None:
    program = "def execute_command(image):\n    return 'a'"
    with pytest.raises(UsageError, match="desired"):
        case(bench, program, desired, task=task, **more)


def test_equality_is_that_of_the_metrics(bench: Bench) -> None:
    answer = case(bench, RING, "2").answer
    assert is_desired(answer, "one", "question")
    assert is_desired(answer, ["three", "1"], "question")
    assert not is_desired(answer, "2", "question")
    assert not is_desired(None, "1", "question")
