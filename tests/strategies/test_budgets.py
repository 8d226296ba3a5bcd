"""The budget of a query bounds what its tools ask of language models, too."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from tests.strategies.bench import Bench, Clock, Slow, picture
from viper.errors import ModelError, UnavailableError
from viper.models.llm.protocol import Completion, charge, charging, sending
from viper.models.llm.scripted import ScriptedLLM
from viper.models.media import media_from
from viper.models.vision.vlm import EndpointVLM, VlmMatcher
from viper.reasoner import RunOptions
from viper.schema import Query
from viper.strategies.base import RunContext, StoppedError
from viper.strategies.settings import RunSettings
from viper.tools.text import LanguageTool

MANY = """def execute_command(image):
    texts = [llm_query(f"what is {number}?") for number in range(80)]
    return texts[-1]
"""


def bench(*replies: str, asked: ScriptedLLM, **settings: Any) -> Bench:
    """A bench whose text tool asks a language model."""
    made = Bench(list(replies), **settings)
    made.reasoner.components.toolbox.models.add(
        "text", lambda: LanguageTool(asked, select_by="choice")
    )
    return made


@pytest.mark.parametrize(
    ("bound", "requests"), [({"max_llm_calls": 3}, 3), ({"max_llm_tokens": 1}, 1), ({}, 81)]
)
def test_eighty_requests_of_a_tool_end_at_the_bound(bound: dict[str, Any], requests: int) -> None:
    asked = ScriptedLLM([str(number) for number in range(80)])
    with bench(MANY, asked=asked) as made:
        result = made.reasoner.run(picture(), "what is it?", **bound)
    assert result.trace.usage.llm_calls == requests
    if bound:
        assert result.failure is not None and result.failure.kind == "budget"
        *answered, refused = result.trace.trials[-1].tool_calls
        assert len(answered) == requests - 1 and "used of max_llm" in (refused.error or "")
    else:
        assert result.answer is not None and result.answer.value == "79"


def test_an_agent_ends_at_the_bound_with_what_it_has() -> None:
    code = "<code>\nfinal_answer = 'red'\n</code>"
    many = "<code>\n[llm_query(f'what is {n}?') for n in range(80)]\n</code>"
    asked = ScriptedLLM([str(number) for number in range(80)])
    with bench(code, many, asked=asked, prompt_style="chat") as made:
        result = made.reasoner.run(picture(), "what is it?", strategy="explore", max_llm_calls=4)
    assert result.trace.usage.llm_calls == 4
    assert result.answer is not None and result.answer.value == "red"


def test_requests_side_by_side_do_not_exceed_the_bound() -> None:
    with bench(asked=ScriptedLLM([])) as made:
        context, _ = made.reasoner.context(picture(), "what is it?", RunOptions(max_llm_calls=3))
    sent, refused = [], []
    together = threading.Barrier(3)

    def ask(number: int) -> None:
        try:
            with charging([context]), sending(1):
                sent.append(number)
                together.wait(10)  # three are under way, none of them paid
                charge([Completion("red", 1, 1)])
        except StoppedError as stop:
            refused.append(stop.failure.kind)

    with ThreadPoolExecutor(80) as pool:
        list(pool.map(ask, range(80)))
    assert len(sent) == context.usage.llm_calls == 3
    assert refused == ["budget"] * 77


def test_a_batch_that_the_budget_does_not_allow_is_not_sent() -> None:
    asked = ScriptedLLM(["yes"] * 9)
    asked.sees_pictures = True  # type: ignore[attr-defined]
    program = """def execute_command(image):
        return ImagePatch(image).best_text_match(["a", "b", "c"])"""
    with bench(program, asked=asked) as made:
        made.reasoner.components.toolbox.models.add(
            "matcher", lambda: VlmMatcher(EndpointVLM(asked))
        )
        result = made.reasoner.run(picture(), "what is it?", max_llm_calls=3, trials=1)
    assert result.failure is not None and result.failure.kind == "budget"
    assert asked.calls == [] and result.trace.usage.llm_calls == 1


def test_a_failed_request_gives_its_place_back() -> None:
    with bench(asked=ScriptedLLM([])) as made:
        context, _ = made.reasoner.context(picture(), "what is it?", RunOptions(max_llm_calls=1))
    for _ in range(2):
        with pytest.raises(ModelError), charging([context]), sending(1):
            raise ModelError("it failed")
    with charging([context]), sending(1):
        charge([Completion("red", 1, 1)])
    assert context.usage.llm_calls == 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("viper.strategies.base.time", made)
    return made


def test_time_ends_a_program_between_two_calls(clock: Clock) -> None:
    asked = Slow([str(number) for number in range(80)], clock)
    with bench(MANY, asked=asked) as made:
        result = made.reasoner.run(picture(), "what is it?", max_seconds=100.0)
    assert result.failure is not None and result.failure.kind == "budget"
    assert "max_seconds 100" in result.failure.message
    assert len(asked.calls) == 2


def test_a_run_without_an_answer_says_that_its_time_was_over(clock: Clock) -> None:
    with bench(asked=ScriptedLLM([])) as made:
        slow = Slow([BROKEN] * 9, clock)
        made.reasoner.components = made.reasoner.components.with_models(llm=slow)
        result = made.reasoner.run(picture(), "what is it?", max_seconds=100.0)
    assert len(slow.calls) == 2 and result.answer is None
    assert result.failure is not None and result.failure.kind != "budget"
    (warning,) = result.trace.warnings
    assert warning.kind == "ended_early" and "120.0 used of max_seconds 100" in warning.text


def test_the_answer_of_a_finished_vote_outlasts_the_time(clock: Clock) -> None:
    red = "def execute_command(image):\n    return 'red'\n"
    with bench(asked=ScriptedLLM([]), votes=5) as made:
        slow = Slow([red, red.replace("red", "blue"), red, red], clock)
        made.reasoner.components = made.reasoner.components.with_models(llm=slow)
        result = made.reasoner.run(picture(), "what is it?", max_seconds=100.0)
    assert result.answer is not None and result.answer.value == "red"
    assert "ended_early" in [each.kind for each in result.warnings]
    assert len(result.trace.trials) == 2


def test_time_ends_a_program_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 10_000, 10))
    monkeypatch.setattr(
        "viper.strategies.base.time", SimpleNamespace(monotonic=lambda: next(ticks))
    )
    endless = "def execute_command(image):\n    while True:\n        pass\n"
    with bench(endless, asked=ScriptedLLM([])) as made:
        result = made.reasoner.run(picture(), "what is it?", max_seconds=100.0)
    assert result.failure is not None and result.failure.kind == "budget"  # no timeout of 5 s


def test_the_best_answer_so_far_says_that_the_budget_ended_the_run() -> None:
    red = "def execute_command(image):\n    return 'red'\n"
    asked = ScriptedLLM([str(number) for number in range(80)])
    with bench(red, MANY, asked=asked, votes=3) as made:
        result = made.reasoner.run(picture(), "what is it?", max_llm_calls=4)
    assert result.answer is not None and result.answer.value == "red"
    assert "ended_early" in [each.kind for each in result.trace.warnings]
    assert result.trace.usage.llm_calls == 4


class Flaky(ScriptedLLM):
    """Fails some times before each reply, as an endpoint does after the client's retries."""

    def __init__(self, failures: int) -> None:
        super().__init__(["red"])
        self.left = failures

    def generate(self, *arguments: Any) -> Any:
        if self.left:
            self.left -= 1
            raise UnavailableError("429; given up after 6 tries")
        return super().generate(*arguments)


BROKEN = "def execute_command(image):\n    return nonsense\n"
ONE = "def execute_command(image):\n    return llm_query('what is it?')\n"


@pytest.mark.parametrize(("failures", "answer"), [(1, "red"), (2, "red"), (3, None)])
def test_a_failing_endpoint_of_a_tool_fails_the_trial_and_the_program_runs_again(
    failures: int, answer: str | None
) -> None:
    with bench(ONE, asked=Flaky(failures)) as made:
        result = made.reasoner.run(picture(), "what is it?")
        assert len(made.llm.calls) == 1
    kinds = [trial.failure and trial.failure.kind for trial in result.trace.trials]
    assert kinds == (["unavailable"] * failures + [None])[:3]
    assert (result.answer and result.answer.value) == answer
    assert [trial.correction for trial in result.trace.trials[1:]] == ["rerun"] * (len(kinds) - 1)
    if answer is None:
        assert result.failure is not None and result.failure.kind == "unavailable"
    assert result.trace.usage.llm_calls == (2 if answer else 1)


def test_a_writer_whose_endpoint_fails_later_keeps_the_trials() -> None:
    class Writer(ScriptedLLM):
        def generate(self, *arguments: Any) -> Any:
            if self.calls:
                raise UnavailableError("429; given up after 6 tries")
            return super().generate(*arguments)

    with bench(asked=ScriptedLLM([])) as made:
        components = made.reasoner.components
        made.reasoner.components = components.with_models(llm=Writer([BROKEN]))
        result = made.reasoner.run(picture(), "what is it?")
    assert len(result.trace.trials) == 1 and result.trace.usage.llm_calls == 1


def test_a_repeated_program_is_told_so_and_no_request_is_sent_twice() -> None:
    fenced = f"```python\n{BROKEN}```"
    with Bench([fenced] * 9, prompt_style="chat", feedback=True, trials=3) as made:
        made.reasoner.run(picture(), "what is it?")
        prompts = [call.prompt for call in made.llm.calls]
    assert len(prompts) == len(set(prompts)) == 3
    assert "same program" in prompts[2] and "same program" not in prompts[1]


def test_a_greedy_request_is_not_sent_twice() -> None:
    with Bench([BROKEN] * 9, retry_temperature=0.0, trials=3) as made:
        made.reasoner.run(picture(), "what is it?")
        draws = [
            (call.prompt, call.sampling.temperature, call.sampling.seed)
            for call in made.llm.calls
            if call.sampling is not None
        ]
    greedy = [prompt for prompt, temperature, _ in draws if not temperature]
    assert len(draws) == len(set(draws)) and len(greedy) == len(set(greedy))


def test_inputs_of_one_run_reserve_from_one_budget() -> None:
    settings = RunSettings(max_llm_calls=2)
    media = media_from(picture())
    context = RunContext(Query("x", "question"), media, settings, threading.Event())
    others = [context.about(context.query, media) for _ in range(3)]
    others[0].reserve()
    others[1].reserve()
    with pytest.raises(StoppedError):
        others[2].reserve()
    others[0].release()
    assert context.room() == 1
    context.reserve()


def test_other_seeds_are_other_requests() -> None:
    with Bench([BROKEN] * 9, trials=3) as made:
        made.reasoner.run(picture(), "what is it?")
        assert len(made.llm.calls) == 1 + 4 + 4
