"""Verification: candidates grouped by behaviour on exact inputs, and tests of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from viper.errors import ToolError, UsageError
from viper.models.media import Media, write_mp4
from viper.plugins import offered
from viper.reasoner import RunOptions
from viper.sandbox import Ref
from viper.schema import Query
from viper.strategies.exact import ExactInput
from viper.strategies.verification import agreement, groups_by_behaviour

COUNT = "def execute_command(image):\n    return len(ImagePatch(image).find('cube'))\n"
SAME = COUNT.replace("return len", "return 0 + len")
LUCKY = "def execute_command(image):\n    return 2\n"
BROKEN = "def execute_command(image):\n    return nonsense\n"


class Cubes:
    """Tools that find a number of cubes."""

    def __init__(self, count: int) -> None:
        self.count = count

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None = None
    ) -> Any:
        if name != "find":
            raise ToolError(f"no tool {name}")
        return [Ref("patch", ("image0", 0, 0, 5, 5)) for _ in range(self.count)]


def cubes(query: Query, count: int) -> Sequence[ExactInput]:
    media = Media((np.zeros((8, 8, 3), np.uint8),), None, ("image0",))
    return [ExactInput(media, Cubes(number)) for number in range(4)]


@pytest.fixture
def exact() -> Iterator[None]:
    with offered("viper.exact_inputs", {"": f"{__name__}:cubes"}):
        yield


def ask(programs: list[str], **settings: Any) -> Any:
    with Bench(programs, verify=True, **settings) as bench:
        return bench.reasoner.run(picture(), "how many cubes are there?").trace


@pytest.mark.usefixtures("exact")
def test_the_largest_group_that_behaves_alike_answers_not_the_earliest() -> None:
    trace = ask([LUCKY, COUNT, SAME])
    assert (trace.answer.value, trace.chosen) == (2, 1)
    assert trace.votes == (("2", 2), ("2", 1))
    exact_checks = [check for check in trace.checks if check.kind == "exact"]
    assert [check.passed for check in exact_checks] == [True] * 4
    assert [check.seen for check in exact_checks] == ["0", "1", "2", "3"]


@pytest.mark.usefixtures("exact")
def test_a_program_that_differs_from_most_fails_those_inputs() -> None:
    trace = ask([COUNT, LUCKY, LUCKY + "# again\n", LUCKY + "# and again\n"], votes=4)
    assert trace.program.strip() == LUCKY.strip()
    trace = ask([LUCKY, COUNT, BROKEN, BROKEN], trials=1)
    assert trace.program.strip() == LUCKY.strip()  # of equal groups the earliest
    failed = {check.name for check in trace.checks if check.kind == "exact" and not check.passed}
    assert not failed  # one against one: its own answer counts


def test_programs_that_answer_no_input_are_the_last_group() -> None:
    none = ("no answer", "no answer")
    assert groups_by_behaviour([none, none, ("1", "2")]) == [(2,), (0, 1)]
    assert groups_by_behaviour([("1", "no answer"), ("1", "2"), ("1", "2")]) == [(1, 2), (0,)]


def test_without_exact_inputs_answers_are_counted_as_in_a_plain_vote() -> None:
    trace = ask([LUCKY, COUNT, SAME])
    assert trace.chosen == 0 and trace.votes == (("2", 3),)
    assert {check.kind for check in trace.checks} == {"relation"}


def test_each_relation_is_a_check_with_the_expected_answer() -> None:
    trace = ask([COUNT, SAME, LUCKY])
    checks = {check.name: check for check in trace.checks}
    assert set(checks) >= {"mirrored", "brighter"}
    assert all(check.expected == "2" and check.passed for check in checks.values())


def test_a_query_with_sides_is_asked_again_in_other_words() -> None:
    first = "def execute_command(image):\n    return 'blue'\n"
    other = "def execute_command(image):\n    return 'red'\n"
    with Bench([first, first, first, other], verify=True) as bench:
        trace = bench.reasoner.run(picture(), "what color is the left cube?").trace
        assert "what color is the right cube?" in str(bench.llm.calls[-1])
    mirrored = next(check for check in trace.checks if check.name == "mirrored")
    assert (mirrored.passed, mirrored.expected, mirrored.seen) == (False, "blue", "red")


def test_without_an_answer_nothing_is_verified() -> None:
    trace = ask([BROKEN.replace("nonsense", f"nonsense{i}") for i in range(3)], trials=1)
    assert trace.answer is None and trace.checks == ()


def test_a_strategy_without_programs_is_refused() -> None:
    with (
        Bench([COUNT]) as bench,
        pytest.raises(UsageError, match="strategy explore writes no programs to verify"),
    ):
        bench.reasoner.run(picture(), "what?", strategy="explore", verify=True)


def test_a_program_that_misuses_the_api_fails_before_any_model_runs() -> None:
    wrong = (
        "def execute_command(image):\n    return len(ImagePatch(image).find('cube', 'red', 3))\n"
    )
    with Bench([wrong, COUNT, SAME, LUCKY], verify=True) as bench:
        trace = bench.reasoner.run(picture(), "how many cubes are there?").trace
    first = trace.trials[0]
    assert first.failure is not None and (first.failure.kind, first.failure.line) == ("api", 2)
    assert first.tool_calls == () and trace.answer is not None


RINGS = "def execute_command(image):\n    return len(ImagePatch(image).find('ring'))\n"
LEFT = "def execute_command(image):\n    return ImagePatch(image).find('ring')[0].left\n"
CHANGES = ["laxer", "stricter", "mirrored", "brighter", "cropped"]


def names(trace: Any) -> list[str]:
    return [check.name for check in trace.checks]


def test_a_program_runs_again_on_small_changes_only_if_asked_to() -> None:
    with Bench([COUNT, COUNT]) as bench:
        plain = bench.reasoner.run(picture(), "how many cubes are there?").trace
        checked = bench.reasoner.run(picture(), "how many cubes are there?", checks=True).trace
        assert plain.checks == () and names(checked) == CHANGES
        assert all(check.passed and check.seen == "2" for check in checked.checks)
        # Thresholds apply after the caches, and a gray picture is its own mirror image: brighter
        # and cropped ask the detector for an encoding and for boxes.
        assert checked.usage.model_calls == 4 == 2 * plain.usage.model_calls
        assert len(bench.llm.calls) == 2


def test_checks_say_how_clearly_thresholds_decided_unless_they_moved_them() -> None:
    with Bench([RINGS]) as bench:
        checks = bench.reasoner.run(picture(), "how many?", checks=True).trace.checks
    margins = {check.name: check.margin for check in checks}
    assert margins["laxer"] is None and margins["stricter"] is None
    assert margins["brighter"] == pytest.approx(2.603, abs=0.01)  # .9 against .4, in log-odds


def test_checks_stop_at_the_first_answer_that_differs() -> None:
    with Bench([RINGS]) as bench:
        bench.reasoner.components = bench.reasoner.components.with_thresholds(
            {"detector.threshold": 0.3}
        )
        trace = bench.reasoner.run(picture(), "how many rings are there?", checks=True).trace
        (check,) = trace.checks
        assert (check.name, check.passed, check.expected, check.seen) == ("laxer", False, "1", "2")
        assert trace.answer is not None and trace.answer.value == 1


def test_a_given_program_is_checked_as_well_and_not_mirrored_if_it_names_a_side() -> None:
    with Bench([]) as bench:
        counted = bench.reasoner.execute(COUNT, picture(), checks=True).trace
        left = bench.reasoner.execute(LEFT, picture(), checks=True).trace
    assert names(counted) == CHANGES
    assert "mirrored" not in names(left)


@pytest.mark.parametrize("tool", ["ocr", "read_clip", "track_objects"])
def test_a_program_that_reads_writing_or_a_file_has_no_checks(tool: str) -> None:
    with Bench([COUNT]) as bench:
        context, _ = bench.reasoner.context(picture(), "what?", RunOptions())
        trial = bench.reasoner.execute(COUNT, picture()).trace.trials[0]
        read = replace(trial, tool_calls=(replace(trial.tool_calls[0], tool=tool),))
        assert agreement(bench.reasoner.components, context, trial)
        assert agreement(bench.reasoner.components, context, read) == ()


def test_a_budget_that_ends_a_check_is_no_disagreement() -> None:
    program = COUNT.replace("return len", "llm_query('one?'); return len")
    with Bench(["two"] * 10) as bench:
        context, _ = bench.reasoner.context(picture(), "what?", RunOptions())
        trial = bench.reasoner.execute(program, picture()).trace.trials[0]
        spent = replace(context, settings=replace(context.settings, max_seconds=1e-9))
        assert agreement(bench.reasoner.components, spent, trial) == ()
        checks = agreement(bench.reasoner.components, context, trial)
    assert [check.name for check in checks] == CHANGES


@pytest.mark.parametrize("settings", [{"checks": True}, {"verify": True}])
def test_an_answer_from_the_file_of_a_video_is_given_without_checks(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "video.mp4"
    write_mp4(path, np.zeros((16, 32, 32, 3), np.uint8))
    program = "def execute_command(video):\n    return VideoSegment(video).overview(4).num_frames\n"
    with Bench([program] * 5) as bench:
        result = bench.reasoner.run(path, "how many frames?", task="question", **settings)
    assert result.answer.value == 4 and not result.trace.checks
