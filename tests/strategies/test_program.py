"""The loop: write, run, diagnose, correct; with the real sandbox and fake models."""

import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.strategies.bench import HEIGHT, WIDTH, Bench, picture
from viper.api.library import library_for
from viper.errors import CancelledError, MediaError, UnknownNameError, UsageError
from viper.reasoner import Reasoner, RunOptions
from viper.run_result import RunResult
from viper.schema import Trial
from viper.testing.fakes import FakeDetector

LEFTMOST = """def execute_command(image):
    image_patch = ImagePatch(image)
    patches = image_patch.find("cube")
    patches = sort_patches_left_to_right(patches)
    return patches[0]
"""
FAINT = LEFTMOST.replace("cube", "faint ball")
BROKEN = "def execute_command(image):\n    return nonsense\n"
COLOR = """def execute_command(image):
    return ImagePatch(image).find("cube")[0].simple_query("what color is this?")
"""
AFTER = """def execute_command(video, question, possible_answers):
    video_segment = VideoSegment(video)
    segment = video_segment.get_video_segment_after_event("the cube stops")
    info = segment.caption_video("what happens?")
    return select_answer(info, question, possible_answers)
"""


OWN = '''
from viper.api import ImagePatch, routine


@routine(tool=True)
def is_bold(tools, patch: ImagePatch) -> bool:
    """Return whether weak candidates count."""
    return tools.threshold("detector.threshold") < 0.15
'''


def test_a_box_in_pixels_from_the_top_left() -> None:
    with Bench([LEFTMOST]) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube")
    assert result.answer is not None and result.answer.box == (10.0, 40.0, 20.0, 50.0)
    assert result.trace.task == "ground"
    assert [call.tool for call in result.trace.trials[0].tool_calls] == ["find"]
    assert result.trace.usage.llm_calls == 1


def test_a_question_and_a_choice() -> None:
    with Bench([COLOR, AFTER]) as bench:
        color = bench.reasoner.run(picture(), "what color is the cube?")
        clip = np.stack([picture()] * 8)
        options = ["the cube stops", "the ball falls"]
        chosen = bench.reasoner.run(clip, "what happens then?", options=options)
    assert color.answer is not None and color.answer.value == "red"
    assert chosen.answer is not None and chosen.answer.choice_index == 1


def test_a_choice_about_a_picture_is_asked_as_a_question() -> None:
    with Bench([COLOR]) as bench:
        result = bench.reasoner.run(picture(), "what color is it?", options=["the blue", "a red"])
    assert result.answer is not None and result.answer.choice_index in (0, 1)
    assert "# task: question" in bench.llm.calls[0].prompt
    assert [call.tool for call in result.trace.trials[0].tool_calls][-1] == "select_answer"


def test_a_question_about_a_video_needs_no_options() -> None:
    with Bench([AFTER]) as bench:
        result = bench.reasoner.run(np.stack([picture()] * 8), "what happens then?")
    assert result.answer is not None and result.answer.value == "the ball falls."
    assert result.trace.task == "question"


def test_self_tuning_runs_the_same_program_without_llm_or_forward() -> None:
    with Bench([FAINT]) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    trials = result.trace.trials
    assert result.answer is not None
    assert [trial.correction for trial in trials] == ["first", "self_tune"]
    # .3 and .2 change nothing: the best ball has a score of .15
    assert [trial.thresholds["detector.threshold"] for trial in trials] == [0.4, 0.1]
    assert {trial.program for trial in trials} == {trials[0].program}
    first = trials[0].failure
    assert first is not None and first.kind == "below_threshold"
    assert (first.tool, first.parameter, first.line) == ("find", "detector.threshold", 5)
    assert len(bench.llm.calls) == 1 and result.trace.usage.llm_calls == 1
    assert bench.detector.encoded == [(HEIGHT, WIDTH, 3)]
    assert bench.detector.detected == ["faint ball"]


def test_an_index_beyond_the_end_is_blamed_on_a_threshold_that_shortened_the_list() -> None:
    program = "def execute_command(image):\n    return ImagePatch(image).find('ring')[1]"
    with Bench([program, LEFTMOST], trials=1) as bench:
        result = bench.reasoner.run(picture(), "the second ring")
    assert [trial.correction for trial in result.trace.trials] == ["first", "self_tune"]
    failure = result.trace.trials[0].failure
    assert failure is not None
    assert (failure.kind, failure.parameter) == ("below_threshold", "detector.threshold")
    assert result.answer is not None and result.trace.usage.llm_calls == 1


def test_an_index_beyond_all_candidates_is_the_programs_own_mistake() -> None:
    program = "def execute_command(image):\n    return ImagePatch(image).find('cube')[2]"
    with Bench([program, LEFTMOST], trials=2) as bench:
        result = bench.reasoner.run(picture(), "the third cube")
    assert [trial.correction for trial in result.trace.trials] == ["first", "self_debug"]


def values_tried(result: RunResult) -> list[float]:
    return [trial.thresholds["detector.threshold"] for trial in result.trace.trials]


def test_a_failure_that_no_threshold_changes_is_not_repeated() -> None:
    with Bench([FAINT], trials=1) as bench:
        bench.detector = FakeDetector({"faint ball": [((1, 1, 9, 9), 0.05)]})  # below the floor
        result = bench.reasoner.run(picture(), "the faint ball")
    failure = result.trace.trials[0].failure
    assert failure is not None and failure.kind == "below_threshold"
    assert values_tried(result) == [0.4]


def test_each_value_that_changes_a_call_is_tried() -> None:
    program = "def execute_command(image):\n    return ImagePatch(image).find('ball')[2]"
    boxes = [((1, 1, 9, 9), 0.3), ((11, 1, 19, 9), 0.3), ((21, 1, 29, 9), 0.1)]
    with Bench([program], trials=1) as bench:
        bench.detector = FakeDetector({"ball": boxes})
        result = bench.reasoner.run(picture(), "the third ball")
    assert values_tried(result) == [0.4, 0.3, 0.1] and result.answer is not None


def test_a_routine_that_reads_a_threshold_is_tried_at_every_value(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    program = """def execute_command(image):
    image_patch = ImagePatch(image)
    if is_bold(image_patch):
        return "red"
    return image_patch.find("speck")[0].simple_query("what color is this?")
"""
    with Bench([program], library_for(f"abstract+{tmp_path / 'own.py'}"), trials=1) as bench:
        bench.detector = FakeDetector({"speck": [((1, 1, 9, 9), 0.05)]})
        result = bench.reasoner.run(picture(), "what color is the speck?")
    assert values_tried(result) == [0.4, 0.3, 0.2, 0.1]
    assert result.answer is not None and result.answer.value == "red"


def test_only_the_threshold_at_fault_is_lowered() -> None:
    with Bench([FAINT]) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    assert {trial.thresholds["video.threshold"] for trial in result.trace.trials} == {0.3}


def test_the_result_that_reached_the_failure_is_blamed_not_the_last_that_was_empty() -> None:
    program = (
        "def execute_command(image):\n"
        "    image_patch = ImagePatch(image)\n"
        "    balls = image_patch.find('faint ball')\n"
        "    others = image_patch.find('faint ball')\n"
        "    return balls[0]\n"
    )
    with Bench([program], trials=1) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    failure = result.trace.trials[0].failure
    assert failure is not None and (failure.kind, failure.call_index) == ("below_threshold", 0)


def test_a_wrong_type_after_an_empty_result_is_blamed_on_its_threshold() -> None:
    program = (
        "def execute_command(image):\n"
        "    balls = ImagePatch(image).find('faint ball')\n"
        "    return balls[0] if balls else None\n"
    )
    with Bench([program], trials=1) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    assert result.answer is not None and len(result.trace.trials) == 2
    failure = result.trace.trials[0].failure
    assert failure is not None and failure.kind == "below_threshold"


def test_another_error_after_a_shortened_list_is_the_programs_own_mistake() -> None:
    program = (
        "def execute_command(image):\n"
        "    rings = ImagePatch(image).find('ring')\n"
        "    return rings[int('first')]\n"
    )
    with Bench([program], trials=1) as bench:
        result = bench.reasoner.run(picture(), "the ring")
    assert [trial.correction for trial in result.trace.trials] == ["first"]
    assert result.failure is not None and result.failure.exception == "ValueError"


def test_nothing_is_lowered_where_self_tuning_is_off() -> None:
    with Bench([FAINT], trials=1, self_tune=False) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    assert len(result.trace.trials) == 1 and result.failure is not None
    assert result.failure.kind == "below_threshold"


def test_self_debugging_asks_again_with_another_seed_and_temperature() -> None:
    with Bench([BROKEN, LEFTMOST], trials=3) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube")
    assert [trial.correction for trial in result.trace.trials] == ["first", "self_debug"]
    first, second = (call.sampling for call in bench.llm.calls)
    assert first.temperature == 0 and second.temperature == 0.4 and first.seed != second.seed
    assert bench.llm.calls[0].prompt == bench.llm.calls[1].prompt


def test_a_program_that_failed_already_is_drawn_anew_and_warmer() -> None:
    with Bench([BROKEN, BROKEN, BROKEN, LEFTMOST], trials=2) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube")
    assert [trial.correction for trial in result.trace.trials] == ["first", "self_debug"]
    assert result.answer is not None and result.trace.usage.llm_calls == 4
    temperatures = [call.sampling.temperature for call in bench.llm.calls]
    assert temperatures == pytest.approx([0.0, 0.4, 0.7, 1.0])
    assert len({call.sampling.seed for call in bench.llm.calls}) == 4


def test_a_writer_that_only_repeats_itself_fails_once() -> None:
    with Bench([BROKEN] * 9, trials=3) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube")
    assert len(result.trace.trials) == 1 and result.failure is not None


def test_feedback_shows_the_failed_program() -> None:
    with Bench([BROKEN, LEFTMOST], feedback=True, prompt_style="full") as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube")
    assert result.trace.trials[1].correction == "self_debug_feedback"
    assert "return nonsense" not in bench.llm.calls[0].prompt
    assert "return nonsense" in bench.llm.calls[1].prompt


def test_nothing_right_keeps_the_last_failure() -> None:
    with Bench([BROKEN, "return 3 +", "import os\nanswer = 1"], trials=3) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube")
    kinds = [trial.failure.kind for trial in result.trace.trials if trial.failure]
    assert kinds == ["runtime", "syntax", "forbidden"]
    assert result.answer is None and result.failure is not None
    assert result.failure.kind == "forbidden"


@pytest.mark.parametrize("value", ["None", "[]", "3", "'a cube'", "ImagePatch(image).find('cube')"])
def test_a_wrong_type_is_a_failure_not_a_crash(value: str) -> None:
    program = f"def execute_command(image):\n    return {value}\n"
    with Bench([program], trials=1) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube")
    assert result.failure is not None and result.failure.kind == "return_type"


def test_stream_gives_trials_then_the_result() -> None:
    with Bench([BROKEN, LEFTMOST]) as bench:
        events = list(bench.reasoner.stream(picture(), "the leftmost cube"))
    assert [type(event) for event in events] == [Trial, Trial, RunResult]


def test_cancelling_ends_the_run() -> None:
    cancel = threading.Event()
    with Bench([BROKEN, LEFTMOST]) as bench, pytest.raises(CancelledError):
        bench.reasoner.run(
            picture(), "the leftmost cube", on_trial=lambda _: cancel.set(), cancel=cancel
        )
    assert len(bench.llm.calls) == 1


def test_arun_and_threads_share_one_reasoner() -> None:
    async def several(bench: Bench) -> list[RunResult]:
        return list(
            await asyncio.gather(
                *(bench.reasoner.arun(picture(), "the leftmost cube") for _ in range(4))
            )
        )

    with Bench([LEFTMOST] * 4) as bench:
        results = asyncio.run(several(bench))
    assert [result.answer.box for result in results if result.answer] == [
        (10.0, 40.0, 20.0, 50.0)
    ] * 4
    assert len(bench.detector.encoded) == 1


def test_a_program_of_ones_own() -> None:
    with Bench([]) as bench:
        result = bench.reasoner.execute("answer = len(ImagePatch(image).find('cube'))", picture())
        box = bench.reasoner.execute(LEFTMOST, picture())
    assert result.answer is not None and result.answer.value == 2
    assert box.answer is not None and box.answer.kind == "box"


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"query": "   "}, UsageError, "empty"),
        ({"query": None}, UsageError, "the query is None; expected a text"),
        ({"query": "x" * 50_000}, UsageError, "50000 characters"),
        ({"query": "x", "options": ["one"]}, UsageError, "at least two options"),
        ({"query": "x", "task": "dance"}, UnknownNameError, "known: auto, choice"),
        ({"query": "x", "api": "nothing"}, UnknownNameError, "abstract"),
        ({"query": "x", "strategy": "luck"}, UnknownNameError, "program"),
        ({"query": "x", "colour": 1}, UnknownNameError, "temperature"),
        ({"query": "x", "options": [1, 2]}, UsageError, "expected texts"),
        ({"query": "x", "options": ";"}, UsageError, "expected texts as in"),
        ({"query": "x", "temperature": "hot"}, UsageError, "'hot'; expected a number"),
        ({"query": "x", "votes": 1.5}, UsageError, "votes is 1.5; expected a whole number"),
        ({"query": "x", "trials": True}, UsageError, "expected a whole number"),
    ],
)
def test_bad_input_is_one_clear_error(given: dict, error: type, said: str) -> None:
    query = given.pop("query")
    with Bench([]) as bench, pytest.raises(error, match=said):
        bench.reasoner.run(picture(), query, **given)


def test_what_is_left_out_may_be_none() -> None:
    with Bench([LEFTMOST]) as bench:
        result = bench.reasoner.run(picture(), "x", task=None, options=None, strategy=None)
    assert result.answer is not None


def test_a_name_is_no_profile() -> None:
    with pytest.raises(UsageError, match="give load_profile"):
        Reasoner("embedded")


def test_missing_media() -> None:
    with Bench([]) as bench, pytest.raises(MediaError, match="no such file"):
        bench.reasoner.run("absent.png", "the cube")


def test_a_trial_tells_what_writing_its_program_cost() -> None:
    with Bench([BROKEN, FAINT], trials=2) as bench:
        trace = bench.reasoner.run(picture(), "the faint ball", RunOptions(task="ground")).trace
    written = [(trial.correction, trial.writing.llm_calls) for trial in trace.trials]
    assert written == [("first", 1), ("self_debug", 1), ("self_tune", 0)]
    told = [trial.writing for trial in trace.trials]
    assert sum(one.prompt_tokens for one in told) == trace.usage.prompt_tokens > 0
    assert sum(one.completion_tokens for one in told) == trace.usage.completion_tokens > 0
    assert all(trial.writing_seconds == 0 for trial in trace.trials if not trial.writing.llm_calls)
