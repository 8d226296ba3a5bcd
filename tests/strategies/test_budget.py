"""Bounds on what the program writer is asked, per query."""

from __future__ import annotations

import threading

import pytest

from tests.strategies.bench import Bench, picture
from viper.commands.present import answer_line, details
from viper.errors import UsageError
from viper.models.media import media_from
from viper.record import result_record
from viper.run_result import RunResult
from viper.schema import Failure, Query, Trial
from viper.strategies.base import RunContext, StoppedError, UsageMeter
from viper.strategies.program import ProgramStrategy
from viper.strategies.settings import RunSettings

BROKEN = "def execute_command(image):\n    return nonsense\n"
FAINT = "def execute_command(image):\n    return ImagePatch(image).find('faint ball')[0]\n"
GOOD = "def execute_command(image):\n    return ImagePatch(image).find('cube')[0]\n"


def test_no_request_beyond_the_bound() -> None:
    with Bench([BROKEN, GOOD], trials=3, max_llm_calls=1) as bench:
        result = bench.reasoner.run(picture(), "the cube")
        assert len(bench.llm.calls) == 1
    assert result.failure is not None and result.failure.kind == "runtime"
    assert result.trace.usage.llm_calls == 1


def test_redraws_count() -> None:
    with Bench([BROKEN] * 9, trials=3, max_llm_calls=3) as bench:
        result = bench.reasoner.run(picture(), "the cube")
        assert len(bench.llm.calls) == 3
    assert len(result.trace.trials) == 1


def test_a_program_drawn_last_still_runs() -> None:
    with Bench([BROKEN, GOOD], trials=3, max_llm_calls=2) as bench:
        assert bench.reasoner.run(picture(), "the cube").answer is not None


def test_self_tuning_costs_none_of_it() -> None:
    with Bench([FAINT], trials=3, max_llm_calls=1) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    assert result.answer is not None and len(result.trace.trials) == 2


def test_no_request_once_the_tokens_are_used() -> None:
    with Bench([BROKEN, GOOD], trials=3) as bench:
        result = bench.reasoner.run(picture(), "the cube", max_llm_tokens=1)
        assert len(bench.llm.calls) == 1
    assert result.trace.usage.prompt_tokens > 1
    assert result.failure is not None and result.failure.kind == "runtime"


def test_a_budget_that_allows_no_request_is_a_failure_of_its_own() -> None:
    with Bench([GOOD]) as bench:
        context = RunContext(
            Query("the cube", "ground"),
            media_from(picture()),
            RunSettings(prompt_style="compact", max_llm_calls=2),
            threading.Event(),
            usage=UsageMeter(llm_calls=2),
        )
        with pytest.raises(StopIteration) as ended:
            next(ProgramStrategy().trials(bench.reasoner.components, context))
    stopped = ended.value.value.stopped
    assert stopped is not None and stopped.kind == "budget"
    assert stopped.explained == "2 used of max_llm_calls 2; set a higher bound or 0"


@pytest.mark.parametrize(
    ("bounds", "is_spent"),
    [
        ({"max_llm_calls": 2}, True),
        ({"max_llm_calls": 3}, False),
        ({"max_llm_tokens": 100}, True),  # 90 read, 10 written
        ({"max_llm_tokens": 101}, False),
        ({"max_cost_usd": 0.5}, True),
        ({"max_cost_usd": 0.51}, False),
        ({}, False),
    ],
)
def test_a_bound_is_reached_by_requests_by_all_tokens_and_by_cost(
    bounds: dict[str, float], is_spent: bool
) -> None:
    context = RunContext(
        Query("the cube", "ground"),
        media_from(picture()),
        RunSettings().changed(**bounds),
        threading.Event(),
        usage=UsageMeter(2, 90, 10, cost_usd=0.5),
    )
    assert (context.over_budget() is not None) is is_spent


def test_a_run_without_a_trial_can_be_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(self: object, components: object, context: RunContext) -> list[Trial]:
        context.usage.llm_calls = 5
        raise StoppedError(Failure("budget", "5 used of max_llm_calls 5"))

    monkeypatch.setattr(ProgramStrategy, "trials", stopped)
    with Bench([]) as bench:
        result = bench.reasoner.run(picture(), "the cube", max_llm_calls=5)
    assert isinstance(result, RunResult) and result.trace.trials == ()
    assert answer_line(result).startswith("no answer: budget: 5 used of max_llm_calls 5")
    assert "tool calls:" in list(details(result))
    record = result_record(result.trace)
    assert record["failure"]["kind"] == "budget" and record["tool_calls"] == []


def test_negative_bounds_are_refused() -> None:
    with pytest.raises(UsageError, match="max_llm_calls is -1; 0 or more, 0 for no bound"):
        RunSettings(max_llm_calls=-1)
