"""Replies that hold no program or no action: what a run makes of them, and what it never does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.strategies.bench import Bench, picture
from viper.models.llm.protocol import Completion, Sampling
from viper.models.llm.scripted import ScriptedLLM
from viper.run_result import RunResult
from viper.schema import Failure

REFUSAL = "I'm sorry, but I can't help with identifying people."
COUNT = (
    "```python\ndef execute_command(image):\n    return len(ImagePatch(image).find('cube'))\n```"
)
CUT = "```python\ndef execute_command(image):\n    cubes = ImagePatch(image).find("
DRAFT = COUNT.replace("len(ImagePatch(image).find('cube'))", "'draft'")


class Reporting(ScriptedLLM):
    """Reports an end at the limit or a refusal for the replies with that text."""

    def __init__(self, script: Sequence[str], reasons: dict[str, str]) -> None:
        super().__init__(script)
        self._reasons = reasons

    def generate(self, prompts: Any, sampling: Sampling) -> list[list[Completion]]:
        return [
            [replace(each, finish_reason=self._reasons.get(each.text, "stop")) for each in row]
            for row in super().generate(prompts, sampling)
        ]


class Asked(Bench):
    """A bench whose sandbox counts the programs that it runs."""

    def __init__(self, replies: list[str], reasons: dict[str, str] | None = None, **more: Any):
        super().__init__([], **{"prompt_style": "chat", **more})
        self.llm = Reporting(replies, reasons or {})
        self.reasoner.components = self.reasoner.components.with_models(llm=self.llm)
        self.programs: list[str] = []
        self.result: Any = None
        run = self.sandbox.run

        def counted(program: str, *args: Any, **keywords: Any) -> Any:
            self.programs.append(program)
            return run(program, *args, **keywords)

        self.sandbox.run = counted  # type: ignore[method-assign]

    def ask(self, query: str = "how many cubes?", **options: Any) -> RunResult:
        with self.reasoner:
            return self.reasoner.run(picture(), query, **options)


@pytest.mark.parametrize(
    ("reply", "reason", "kind", "said"),
    [
        (REFUSAL, "stop", "refusal", "can't help with identifying"),
        ("That breaks the policy.", "refusal", "refusal", "breaks the policy"),
        ("", "refusal", "refusal", "another model"),
        (CUT, "length", "truncated", "write a shorter program; raise max_tokens"),
        ("", "length", "truncated", "cut off"),
        ("UNANSWERED", "stop", "no_program", "held no program"),
        ("", "stop", "no_program", "defines execute_command()"),
    ],
)
def test_a_reply_without_a_program_is_a_failed_trial_that_runs_nothing(
    reply: str, reason: str, kind: str, said: str
) -> None:
    bench = Asked([reply, COUNT], {reply: reason}, trials=2)
    result = bench.ask()
    first, second = result.trace.trials
    assert first.failure is not None and first.failure.kind == kind
    assert said in first.failure.explained
    assert first.tool_calls == () and first.program == (CUT[10:] if reply == CUT else "")
    assert second.ok and result.answer is not None and result.answer.value == 2
    assert len(bench.programs) == 1


def test_a_run_of_refusals_ends_with_the_refusal() -> None:
    other = "I cannot look at people."
    result = Asked([REFUSAL, other], trials=2).ask()
    assert [trial.failure and trial.failure.kind for trial in result.trace.trials] == [
        "refusal",
        "refusal",
    ]
    assert isinstance(result.failure, Failure) and "cannot look at people" in result.failure.message
    assert result.trace.program is None


def test_the_same_refusal_is_sampled_again_as_the_same_program_is() -> None:
    bench = Asked([REFUSAL, REFUSAL, COUNT], trials=2)
    result = bench.ask()
    assert result.answer is not None and len(result.trace.trials) == 2
    calls = [call.sampling.temperature for call in bench.llm.calls if call.sampling]
    assert calls[1] < calls[2]


def test_a_complete_program_wins_over_the_limit() -> None:
    reply = f"{COUNT}\nThis program cou"
    assert Asked([reply], {reply: "length"}).ask().answer is not None


def test_a_draft_in_the_reasoning_is_never_run() -> None:
    bench = Asked([f"<think>\n{DRAFT}\n</think>\n{COUNT}"])
    answer = bench.ask().answer
    assert answer is not None and answer.value == 2
    assert "draft" not in bench.programs[0]


def test_a_small_writer_is_judged_by_the_sandbox_as_before() -> None:
    bench = Asked([REFUSAL, CUT], {CUT: "length"}, trials=2, prompt_style="compact")
    result = bench.ask()
    kinds = [trial.failure and trial.failure.kind for trial in result.trace.trials]
    assert kinds == ["syntax", "syntax"] and len(bench.programs) == 2


def explored(replies: list[str], reasons: dict[str, str] | None = None, **more: Any) -> Asked:
    bench = Asked(replies, reasons)
    bench.result = bench.ask(strategy="explore", **more)
    return bench


def turns(bench: Asked) -> list[tuple[str, str]]:
    return [(turn.kind, turn.text) for turn in bench.result.trace.turns]


def test_explore_runs_the_code_beside_a_thought_and_keeps_both() -> None:
    bench = explored(["<thought>I store it.</thought><code>final_answer = 2</code>", "<done>"])
    assert turns(bench) == [("thought", "I store it."), ("code", "final_answer = 2"), ("done", "")]
    history = bench.llm.calls[1].prompt
    assert "I store it." in history.partition("<code>\nfinal_answer = 2\n</code>")[0]
    assert "<code>\nfinal_answer = 2\n</code>" in history


def test_explore_does_not_run_the_code_of_a_think_block() -> None:
    bench = explored(
        ["<think>I could <code>bad</code></think><code>final_answer = 2</code>"] + ["Done."]
    )
    assert turns(bench) == [("code", "final_answer = 2"), ("done", "")]


def test_explore_sends_no_stop_string_that_cuts_reasoning_or_strings() -> None:
    bench = explored(["<code>final_answer = '</code>'</code>", "<done></done>"])
    assert turns(bench)[0] == ("code", "final_answer = '</code>'")
    assert bench.result.answer.value == "</code>"


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("The answer is 3", 3),
        ("I counted them.\n\n**Final answer:** 3", 3),
        (r"\boxed{3}", 3),
        ("The answer is red.", "red"),
        ('{"action": "final_answer", "answer": "red"}', "red"),
    ],
)
def test_explore_ends_with_an_answer_in_words(reply: str, value: object) -> None:
    bench = explored([reply])
    assert bench.result.answer.value == value
    assert [kind for kind, _ in turns(bench)] == ["done"]


def test_explore_stores_the_option_that_a_sentence_names() -> None:
    bench = explored(["The answer is: the ball."], options=("the cube", "the ball"))
    assert bench.result.answer.choice_index == 1


def test_explore_keeps_the_stored_patch_when_words_cannot_be_the_answer() -> None:
    store = "<code>final_answer = image_patch.find('cube')[0]</code>"
    bench = Asked([store, "The answer is the cube on the left."])
    answer = bench.ask("the left cube", strategy="explore").answer
    assert answer is not None and answer.box == (10, 40, 20, 50)


def test_explore_tells_what_was_expected_with_its_tags_whole() -> None:
    bench = explored(["I will look.", "The answer is 3"])
    told = bench.llm.calls[1].prompt
    assert "expected one action: <code>…</code> with Python to run" in told
    assert "‹code>" not in told


def test_explore_tells_that_a_reply_was_cut_off() -> None:
    cut = "<code>cubes = image_patch.find("
    bench = explored([cut, "The answer is 3"], {cut: "length"})
    assert turns(bench)[0][0] == "unreadable"
    assert "the reply was cut off after 3 tokens" in bench.llm.calls[1].prompt
