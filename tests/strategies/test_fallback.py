"""ViperGPT's fallbacks: off by default, marked where they answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import HEIGHT, WIDTH, Bench, picture
from viper.commands.present import answer_line, details
from viper.errors import UnknownNameError, UsageError
from viper.record import result_record
from viper.strategies.settings import RunSettings
from viper.testing.fakes import FakeAnswerer

BROKEN = "def execute_command(image):\n    return nonsense\n"
ALSO_BROKEN = "def execute_command(image):\n    return 1 / 0\n"
GOOD = "def execute_command(image):\n    return ImagePatch(image).find('cube')[0]\n"
COLOR = "what color is this?"


def failing(**settings: object) -> Bench:
    return Bench([BROKEN, ALSO_BROKEN], trials=2, fallback="vipergpt", **settings)


def test_off_by_default() -> None:
    with Bench([BROKEN], trials=1) as bench:
        result = bench.reasoner.run(picture(), "the cube")
    assert result.answer is None and result.trace.fallback is None
    assert [trial.correction for trial in result.trace.trials] == ["first"]


def test_the_average_box_is_marked_and_the_last_failure_kept() -> None:
    with failing() as bench:
        result = bench.reasoner.run(picture(), "the cube")
    expected = (0.0795 * WIDTH, 0.2573 * HEIGHT, 0.7711 * WIDTH, 0.9185 * HEIGHT)
    assert result.answer is not None and result.answer.box == pytest.approx(expected, abs=0.01)
    trace = result.trace
    assert (trace.fallback, trace.failure) == ("average_box", None)
    assert [trial.correction for trial in trace.trials] == ["first", "self_debug", "fallback"]
    failed = trace.trials[-2].failure
    assert failed is not None and failed.exception == "ZeroDivisionError"
    assert trace.trials[-1].ok and trace.trials[-1].tool_calls == ()
    assert result.program == ALSO_BROKEN.strip()


def test_the_published_box_on_a_picture_of_the_usual_size() -> None:
    usual = np.zeros((480, 640, 3), np.uint8)
    with failing() as bench:
        box = bench.reasoner.run(usual, "the cube").trace.answer
    assert box is not None
    # left 50.9, lower 39.1, right 493.5, upper 356.5 with y up
    assert box.box == pytest.approx((50.9, 480 - 356.5, 493.5, 480 - 39.1), abs=0.1)


def test_another_average_box_from_the_profile() -> None:
    with failing(average_box=(0.25, 0.25, 0.75, 0.75)) as bench:
        result = bench.reasoner.run(picture(), "the cube")
    assert result.answer is not None and result.answer.box == (25.0, 15.0, 75.0, 45.0)


def test_json_and_text_say_so() -> None:
    with failing() as bench:
        result = bench.reasoner.run(picture(), "the cube")
    record = result_record(result.trace)
    assert record["fallback"] == "average_box" and record["failure"] is None
    assert record["trials"][1]["failure"]["kind"] == "runtime"
    assert answer_line(result).endswith("[fallback: average_box]")
    lines = list(details(result))
    assert "every trial failed; the fallback average_box answered" in lines
    assert "3 trials, 2 failed (-v prints each)" in lines


def test_a_question_goes_to_the_vqa_model() -> None:
    with failing() as bench:
        result = bench.reasoner.run(picture(), COLOR)
    assert result.answer is not None and result.answer.value == "red"
    assert result.trace.fallback == "vqa"
    assert [call.tool for call in result.trace.trials[-1].tool_calls] == ["simple_query"]


def test_a_choice_about_a_video_goes_to_its_middle_frame() -> None:
    clip = np.stack([picture()] * 9)
    with failing() as bench:
        result = bench.reasoner.run(clip, COLOR, options=["it is blue", "it is red"])
    asked, matched = result.trace.trials[-1].tool_calls
    assert asked.args[0]["fields"][0] == "video0#4"
    assert (matched.tool, matched.args[0]) == ("select_answer", "red")
    assert result.answer is not None and result.trace.fallback == "vqa"


def test_an_answer_needs_no_fallback() -> None:
    with Bench([BROKEN, GOOD], trials=2, fallback="vipergpt") as bench:
        result = bench.reasoner.run(picture(), "the cube")
    assert result.trace.fallback is None and len(result.trace.trials) == 2


@pytest.mark.parametrize(
    ("media", "given"),
    [
        (picture(), {"task": "tag"}),
        (picture(), {"task": "statement"}),
        ([picture()] * 2, {"task": "question"}),
        (np.stack([picture()] * 2), {"task": "ground"}),
    ],
)
def test_other_queries_have_none(media: Any, given: dict[str, Any]) -> None:
    with failing() as bench:
        result = bench.reasoner.run(media, "the cube", **given)
    assert result.answer is None and len(result.trace.trials) == 2


def test_a_fallback_that_fails_leaves_the_programs_failure() -> None:
    class Broken(FakeAnswerer):
        def answer(self, encodings: Any, questions: Any) -> Any:
            raise ValueError("no such weights")

    with failing() as bench:
        bench.reasoner.components.toolbox.models.add("vqa", Broken)
        result = bench.reasoner.run(picture(), COLOR)
    assert result.answer is None and result.trace.fallback is None
    assert result.failure is not None and result.failure.kind == "runtime"
    last = result.trace.trials[-1]
    assert last.correction == "fallback" and last.failure is not None
    assert last.failure.kind == "tool"


def test_one_call_may_ask_for_it() -> None:
    with Bench([BROKEN], trials=1) as bench:
        result = bench.reasoner.run(picture(), "the cube", fallback="vipergpt")
    assert result.trace.fallback == "average_box"


def test_unknown_fallbacks_and_boxes_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="known: none, vipergpt"):
        RunSettings(fallback="luck")
    for box in ((0.0, 0.0, 1.0), (0.5, 0.0, 0.4, 1.0), (0.0, 0.0, 640.0, 480.0)):
        with pytest.raises(UsageError, match="average_box is .*; expected x0, y0, x1, y1"):
            RunSettings(average_box=box)
