"""Answers that do not fit their question, and answers that rest on nothing."""

from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from viper.run_result import RunResult
from viper.testing.fakes import FakeDetector, FakeVideoModel


def program(*lines: str, media: str = "image") -> str:
    return f"def execute_command({media}):\n" + "".join(f"    {line}\n" for line in lines)


def saying(value: str) -> str:
    return program(f"return {value}")


AFTER = program(
    "segment = VideoSegment(video).get_video_segment_after_event('the cube stops')",
    "info = segment.caption_video('what happens?')",
    "return select_answer(info, question, possible_answers)",
    media="video, question, possible_answers",
)
GUESSING = program(
    "balls = ImagePatch(image).find('faint ball')",
    "return balls[0].simple_query('what color is this?') if balls else 'blue'",
)


def corrections(result: RunResult) -> list[str]:
    return [trial.correction for trial in result.trace.trials]


def test_an_answer_of_another_kind_is_corrected() -> None:
    with Bench([saying("'cube'"), saying("True")]) as bench:
        result = bench.reasoner.run(picture(), "is the cube red?")
    first = result.trace.trials[0].failure
    assert first is not None and first.kind == "wrong_type"
    assert "'cube'" in first.message and "yes or no" in first.message
    assert result.answer is not None and result.answer.value == "yes"


@pytest.mark.parametrize(
    ("replies", "settings", "value"),
    [
        (["'cube'", "'ring'"], {}, "ring"),  # another program, another misfit
        (["'cube'", "'cube'"], {"feedback": True}, "cube"),  # the same program once more
        (["'cube'"], {"trials": 1}, "cube"),  # nobody can be asked again
        (["'cube'"], {"on_misfit": "accept"}, "cube"),
    ],
)
def test_a_kind_that_is_insisted_on_is_accepted_with_a_warning(
    replies: list[str], settings: dict[str, Any], value: str
) -> None:
    with Bench([saying(each) for each in replies] * 3, **settings) as bench:
        result = bench.reasoner.run(picture(), "how many cubes are there?")
    assert result.answer is not None and result.answer.value == value
    assert "wrong_type" in [warning.kind for warning in result.warnings]
    assert len(result.trace.trials) == len(replies)


def test_an_unsure_kind_is_not_asked_about() -> None:
    with Bench([saying("'smiling'")]) as bench:
        result = bench.reasoner.run(picture(), "is she laughing or crying?")
    assert result.answer is not None and len(result.trace.trials) == 1


def test_nothing_that_fits_is_a_failure_if_misfits_are_refused() -> None:
    programs = [saying("'cube'"), saying("'ring'")]
    with Bench(programs, trials=2, on_misfit="refuse") as bench:
        result = bench.reasoner.run(picture(), "how many cubes are there?")
    assert result.answer is None
    assert result.failure is not None and result.failure.kind == "wrong_type"


def test_a_program_of_the_caller_without_a_question_may_return_anything() -> None:
    with Bench([]) as bench:
        result = bench.reasoner.execute(saying("'cube'"), picture())
    assert result.answer is not None and result.answer.value == "cube"


def test_a_guess_after_nothing_was_found_is_tuned() -> None:
    with Bench([GUESSING]) as bench:
        result = bench.reasoner.run(picture(), "what color is the faint ball?")
    assert result.answer is not None and result.answer.value == "red"
    assert corrections(result) == ["first", "self_tune"]
    first, second = result.trace.trials
    assert (first.rests_on_nothing, second.rests_on_nothing) == ((0,), ())
    assert second.thresholds["detector.threshold"] == 0.1  # straight to the candidate's score
    assert len(bench.detector.encoded) == 1 and second.writing.llm_calls == 0


def test_with_the_rule_for_failures_it_is_not() -> None:
    with Bench([GUESSING], tune_on_evidence=False) as bench:
        result = bench.reasoner.run(picture(), "what color is the faint ball?")
    assert corrections(result) == ["first"]
    assert result.answer is not None and result.answer.value == "blue"
    assert result.trace.trials[0].rests_on_nothing == (0,)


@pytest.mark.parametrize(
    ("question", "value"),
    [("how many faint balls are there?", "len(x)"), ("is there a faint ball?", "bool(x)")],
)
def test_a_count_or_a_truth_may_rest_on_nothing(question: str, value: str) -> None:
    code = program("x = ImagePatch(image).find('faint ball')", f"return {value}")
    with Bench([code]) as bench:
        result = bench.reasoner.run(picture(), question)
    assert corrections(result) == ["first"]


def test_a_filter_that_leaves_something_is_no_lack_of_evidence() -> None:
    code = program(
        "cubes = ImagePatch(image).find('cube')",
        "red = [c for c in cubes if c.exists('ring')]",
        "return 'red' if red else 'blue'",
    )
    with Bench([code]) as bench:
        result = bench.reasoner.run(picture(), "what color is the cube?")
    assert result.trace.trials[0].rests_on_nothing == ()


def test_what_no_threshold_left_out_cannot_be_tuned() -> None:
    code = GUESSING.replace("faint ball", "pyramid")
    with Bench([code]) as bench:
        result = bench.reasoner.run(picture(), "what color is the pyramid?")
    assert corrections(result) == ["first"]
    assert result.trace.trials[0].rests_on_nothing == (0,)


def test_a_rerun_that_fails_keeps_the_answer() -> None:
    code = GUESSING.replace("balls[0].simple_query('what color is this?')", "balls[9]")
    with Bench([code]) as bench:
        result = bench.reasoner.run(picture(), "what color is the faint ball?")
    assert result.answer is not None and result.answer.value == "blue"
    assert corrections(result) == ["first", "self_tune"]
    assert result.trace.chosen == 0 and result.trace.tool_calls[0].result == []


def test_a_later_vote_is_tuned_even_if_a_rerun_of_an_earlier_one_failed() -> None:
    failing = GUESSING.replace("balls[0].simple_query('what color is this?')", "balls[9]")
    with Bench([failing, GUESSING, saying("'red'")], votes=3) as bench:
        result = bench.reasoner.run(picture(), "what color is the faint ball?")
    assert corrections(result) == ["first", "self_tune", "first", "self_tune", "first"]
    assert result.trace.votes == (("red", 2), ("blue", 1)) and result.trace.chosen == 3


def test_a_score_just_below_its_threshold_is_tuned_once() -> None:
    with Bench([GUESSING]) as bench:
        bench.detector = FakeDetector({"faint ball": [((1, 1, 9, 9), 0.399_99)]})
        result = bench.reasoner.run(picture(), "what color is the faint ball?")
    assert corrections(result) == ["first", "self_tune"]


def test_an_event_that_was_not_located_is_looked_for_again() -> None:
    with Bench([AFTER]) as bench:
        bench.video._events = {"the cube stops": (2, 4, 0.15), "the ball falls": (5, 7, 0.9)}
        clip = np.stack([picture()] * 8)
        options = ["the cube stops", "the ball falls"]
        result = bench.reasoner.run(clip, "what happens after it stops?", options=options)
    assert corrections(result) == ["first", "self_tune"]
    assert result.answer is not None and result.answer.choice_index == 1


class NamedVideoModel(FakeVideoModel):
    """Describes an event only if it was told to look for it."""

    takes_names = True

    def describe(self, encoding, start, end, question=None, names=()):  # type: ignore[no-untyped-def]
        return "the ball falls." if "the ball falls" in names else ""


def test_nothing_described_is_described_again_with_the_options_in_mind() -> None:
    with Bench([AFTER]) as bench:
        bench.video = NamedVideoModel({"the cube stops": (2, 4, 0.9)})
        clip = np.stack([picture()] * 8)
        options = ["the cube stops", "the ball falls"]
        result = bench.reasoner.run(clip, "what happens after it stops?", options=options)
    assert corrections(result) == ["first", "look_for_options"]
    assert result.answer is not None and result.answer.choice_index == 1
