"""Strategy ``plan``: plan, program, correction; with the real sandbox and a real pool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from viper.commands.present import details
from viper.errors import CancelledError, UsageError
from viper.models.llm.scripted import ScriptedLLM
from viper.record import record_from_json, result_record
from viper.schema import Example, Trace, to_json
from viper.strategies.critique import Critique
from viper.strategies.demonstration_pool import DemonstrationPool, pool_example
from viper.tuning.learner import ExampleOrigin, demonstrations_of

PLAN = "1. Find all cubes.\n2. Take the leftmost of those of step 1."
OTHER_PLAN = "1. Find the red cube."
LEFTMOST = """def execute_command(image):
    patches = sort_patches_left_to_right(ImagePatch(image).find("cube"))
    return patches[0]
"""
FAINT = 'def execute_command(image):\n    return ImagePatch(image).find("faint ball")[0]\n'
BROKEN = "def execute_command(image):\n    return nonsense\n"


def a_pool(folder: Path, count: int = 6) -> DemonstrationPool:
    """So many demonstrations in each of the four parts, ever less like the query."""
    pool = DemonstrationPool(folder)
    pool.add(
        pool_example(
            Example(
                query="the leftmost cube " + " ".join(f"word{n}" for n in range(number + 1)),
                program=LEFTMOST + f"# {part} {polarity} {number}",
                task="ground",
                api="abstract",
                score=1.0,
                sample_id=f"s{number}",
                seed=0,
                llm="x",
                api_hash="x",
                plan=f"1. {part} {polarity} {number}.",
                critique="it is wrong" if polarity == "incorrect" else None,
                polarity=polarity,  # type: ignore[arg-type]
                part=part,  # type: ignore[arg-type]
            )
        )
        for part in ("plan", "program")
        for polarity in ("correct", "incorrect")
        for number in range(count)
    )
    return pool


def test_a_plan_first_then_the_program_from_it() -> None:
    with Bench([PLAN, LEFTMOST], prompt_style="chat") as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    asked = [call.prompt for call in bench.llm.calls]
    assert result.answer is not None and result.answer.box == (10.0, 40.0, 20.0, 50.0)
    assert asked[0].endswith("## Plan") and asked[1].endswith(f"## Plan\n\n{PLAN}")
    (trial,) = result.trace.trials
    assert (trial.plan, trial.plan_prompt, trial.prompt) == (PLAN, *asked)
    assert result.trace.strategy == "plan" and result.trace.plan == PLAN
    assert result.trace.usage.llm_calls == trial.writing.llm_calls == 2
    record = result_record(result.trace)
    assert record["plan"] == PLAN and record["trials"][0]["plan"] == PLAN
    assert "    1. Find all cubes." in list(details(result))
    assert record_from_json(Trace, to_json(result.trace)) == result.trace


def test_strategy_program_has_no_plan() -> None:
    with Bench([LEFTMOST]) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube")
    assert result.trace.plan is None and result_record(result.trace)["plan"] is None


def test_four_of_each_kind_are_shown_and_named(tmp_path: Path) -> None:
    pool = a_pool(tmp_path)
    parts = {"demonstrations": pool}
    with Bench([PLAN, LEFTMOST], parts=parts, prompt_style="chat") as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    asked = [call.prompt for call in bench.llm.calls]
    for prompt, part in zip(asked, ("plan", "program"), strict=True):
        places = [prompt.index(f"{part} correct {n}") for n in (3, 2, 1, 0)]
        places += [prompt.index(f"{part} incorrect {n}") for n in (3, 2, 1, 0)]
        assert places == sorted(places)
        assert prompt.count("Why it fails: it is wrong") == 4
        assert f"{part} correct 4" not in prompt and f"{part} incorrect 4" not in prompt
    shown = result.trace.trials[0].demonstrations
    known = {one.id: one.example for one in pool.items()}
    assert len(shown) == 16 and {known[name].part for name in shown} == {"plan", "program"}
    pool.record_outcome(shown, solved=True)
    assert sum(one.helped for one in pool.items()) == 16


def test_how_many_is_a_setting(tmp_path: Path) -> None:
    parts = {"demonstrations": a_pool(tmp_path)}
    with Bench([PLAN, LEFTMOST], parts=parts, prompt_style="full") as bench:
        result = bench.reasoner.run(
            picture(),
            "the leftmost cube",
            strategy="plan",
            correct_demonstrations=1,
            incorrect_demonstrations=0,
        )
    assert len(result.trace.trials[0].demonstrations) == 2
    assert all("did not work" not in call.prompt for call in bench.llm.calls)
    with Bench([], correct_demonstrations=2) as bench, pytest.raises(UsageError, match="is -1"):
        bench.reasoner.run(picture(), "x", strategy="plan", correct_demonstrations=-1)


def test_its_own_sample_is_never_shown(tmp_path: Path) -> None:
    parts = {"demonstrations": a_pool(tmp_path, 2)}
    with Bench([PLAN, LEFTMOST], parts=parts, prompt_style="chat") as bench:
        bench.reasoner.run(picture(), "the leftmost cube", strategy="plan", sample_id="s0")
    assert all("correct 0" not in call.prompt for call in bench.llm.calls)
    assert all("correct 1" in call.prompt for call in bench.llm.calls)


def test_asked_afresh_plan_and_program_are_written_anew() -> None:
    with Bench([PLAN, BROKEN, OTHER_PLAN, LEFTMOST], prompt_style="chat") as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert [trial.plan for trial in result.trace.trials] == [PLAN, OTHER_PLAN]
    assert [trial.correction for trial in result.trace.trials] == ["first", "self_debug"]
    warmth = [call.sampling.temperature for call in bench.llm.calls]
    assert warmth == pytest.approx([0, 0, 0.4, 0.4])
    assert result.trace.plan == OTHER_PLAN


def test_with_feedback_the_plan_stays_and_the_program_is_told() -> None:
    with Bench([PLAN, BROKEN, LEFTMOST], prompt_style="chat", feedback=True) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert [trial.plan for trial in result.trace.trials] == [PLAN, PLAN]
    assert result.trace.trials[1].correction == "self_debug_feedback"
    assert "return nonsense" in bench.llm.calls[2].prompt and PLAN in bench.llm.calls[2].prompt
    assert result.trace.usage.llm_calls == 3


def test_self_tuning_keeps_the_plan() -> None:
    with Bench([PLAN, FAINT], prompt_style="chat") as bench:
        result = bench.reasoner.run(picture(), "the faint ball", strategy="plan")
    assert [trial.correction for trial in result.trace.trials] == ["first", "self_tune"]
    assert {trial.plan for trial in result.trace.trials} == {PLAN} and result.answer is not None


def test_votes_have_plans_of_their_own() -> None:
    replies = [PLAN, LEFTMOST, OTHER_PLAN, LEFTMOST.replace("patches[0]", "list(patches)[0]")]
    with Bench(replies, prompt_style="chat", votes=3) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert [trial.plan for trial in result.trace.trials] == [PLAN, OTHER_PLAN]
    assert result.trace.chosen == 0 and result.trace.plan == PLAN


def test_a_reply_without_a_plan_is_drawn_again() -> None:
    with Bench(["", "```", PLAN, LEFTMOST], prompt_style="chat") as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert result.answer is not None and result.trace.plan == PLAN
    seeds = {call.sampling.seed for call in bench.llm.calls[:3]}
    assert len(seeds) == 3


def test_no_plan_at_all_is_a_failure_and_no_crash() -> None:
    with Bench([""] * 4, prompt_style="chat") as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert result.failure is not None and result.failure.kind == "plan"
    assert "no plan could be read from 4 replies" in result.failure.message
    assert result.trace.trials == () and result.trace.plan is None


def test_the_budget_counts_plans() -> None:
    with Bench([PLAN], prompt_style="chat", max_llm_calls=1) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert result.failure is not None and result.failure.kind == "budget"
    with Bench([PLAN, BROKEN, PLAN], prompt_style="chat", max_llm_calls=3) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert result.failure is not None and result.failure.kind == "runtime"
    assert len(bench.llm.calls) == 3


def test_cancelling_between_plan_and_program() -> None:
    import threading

    cancel = threading.Event()

    def plan_then_cancel(prompt: str) -> str:
        cancel.set()
        return PLAN

    with Bench([], prompt_style="chat") as bench:
        bench.reasoner.components = bench.reasoner.components.with_models(
            llm=ScriptedLLM(plan_then_cancel)
        )
        with pytest.raises(CancelledError):
            bench.reasoner.run(picture(), "the cube", strategy="plan", cancel=cancel)


def test_a_compact_writer_needs_a_planner() -> None:
    said = r"profile bench \(prompt style compact\) knows programs only; .* table \[planner\]"
    with Bench([LEFTMOST]) as bench:
        with pytest.raises(UsageError, match=said) as caught:
            bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
        with pytest.raises(UsageError, match=said):
            bench.reasoner.prompt(picture(), "the leftmost cube", strategy="plan")
    assert "\n" not in str(caught.value) and not bench.llm.calls


def test_a_planner_beside_a_compact_writer(tmp_path: Path) -> None:
    planner = ScriptedLLM([PLAN])
    parts = {"models": {"planner": planner}, "demonstrations": a_pool(tmp_path, 2)}
    with Bench([LEFTMOST], parts=parts) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert result.answer is not None and len(planner.calls) == len(bench.llm.calls) == 1
    assert planner.calls[0].prompt.endswith("## Plan") and planner.calls[0].sampling.stop == ()
    written = bench.llm.calls[0].prompt
    assert "# plan: 1. Find all cubes. 2. Take the leftmost of those of step 1.\n" in written
    assert "program correct 1" in written and "incorrect" not in written


def test_a_compact_planner_writes_the_programs_of_its_plans(tmp_path: Path) -> None:
    planner = ScriptedLLM([PLAN, BROKEN, OTHER_PLAN, LEFTMOST])
    pool = a_pool(tmp_path, 2)
    parts = {
        "models": {"planner": planner},
        "styles": {"planner": "compact"},
        "demonstrations": pool,
    }
    with Bench([], parts=parts) as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert result.answer is not None and not bench.llm.calls
    plan, program = planner.calls[0], planner.calls[1]
    assert plan.prompt.endswith("# query: the leftmost cube\n# plan:\n")
    assert plan.prompt.count("# wrong: ") == 2 and plan.sampling.stop == ("\n\n",)
    assert "# plan: 1. Find all cubes. 2. Take the leftmost of those of step 1.\n" in program.prompt
    assert [trial.plan for trial in result.trace.trials] == [PLAN, OTHER_PLAN]


def test_a_writer_of_another_style_carries_out_what_a_compact_planner_plans() -> None:
    planner = ScriptedLLM([PLAN])
    parts = {"models": {"planner": planner}, "styles": {"planner": "compact"}}
    with Bench([LEFTMOST], parts=parts, prompt_style="chat") as bench:
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert result.answer is not None and len(planner.calls) == len(bench.llm.calls) == 1


def test_the_prompt_is_shown_without_a_model() -> None:
    with Bench([], prompt_style="full") as bench:
        prompt = bench.reasoner.prompt(picture(), "the leftmost cube", strategy="plan")
        usual = bench.reasoner.prompt(picture(), "the leftmost cube")
    assert prompt.endswith("## Plan\n\n1.") and usual.endswith("def execute_command(")


def test_demonstrations_beyond_the_models_context_are_left_out(tmp_path: Path) -> None:
    parts = {"demonstrations": a_pool(tmp_path)}
    with Bench([PLAN, LEFTMOST], parts=parts, prompt_style="chat", max_tokens=10) as bench:
        whole = bench.llm.count_tokens(
            bench.reasoner.prompt(picture(), "the leftmost cube", strategy="plan")
        )
        bench.llm.max_context = whole
        bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    prompt = bench.llm.calls[0].prompt
    assert bench.llm.count_tokens(prompt) <= whole - 10
    assert "plan correct 0" in prompt and "plan incorrect 3" not in prompt


def test_choices_about_pictures_and_questions_about_clips() -> None:
    program = "def execute_command(image):\n    return 'red'\n"
    clip = np.stack([picture()] * 8)
    about_clip = "def execute_command(video, question):\n    return 'it falls'\n"
    with Bench([PLAN, program, PLAN, about_clip], prompt_style="chat") as bench:
        chosen = bench.reasoner.run(
            picture(), "what color is it?", strategy="plan", options=["blue", "red"]
        )
        said = bench.reasoner.run(clip, "what happens then?", strategy="plan")
    assert chosen.answer is not None and chosen.answer.choice_index == 1
    assert said.answer is not None and said.answer.value == "it falls"


def test_a_task_leaves_its_plan_and_program_in_the_pool(tmp_path: Path) -> None:
    pool, origin = DemonstrationPool(tmp_path), ExampleOrigin("scripted", "abc", set="world")
    parts = {"demonstrations": pool}
    replies = [PLAN, LEFTMOST, OTHER_PLAN, LEFTMOST]
    with Bench(replies, parts=parts, prompt_style="chat") as bench:
        first = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
        pool.add(demonstrations_of(first.trace, origin))
        second = bench.reasoner.run(picture(), "the leftmost red cube", strategy="plan")
        wrong = Critique("plan", reason="it looks for one cube only")
        pool.add(demonstrations_of(second.trace, origin, wrong))
        pool.record_outcome(second.trace.trials[0].demonstrations, solved=False)
    assert PLAN in bench.llm.calls[2].prompt and len(second.trace.trials[0].demonstrations) == 2
    kinds = {(one.example.part, one.example.polarity): one for one in pool.items()}
    assert set(kinds) == {("plan", "correct"), ("program", "correct"), ("plan", "incorrect")}
    assert kinds["plan", "correct"].misled == 1 and kinds["plan", "incorrect"].misled == 0
    assert kinds["plan", "incorrect"].example.plan == OTHER_PLAN


def test_a_cut_plan_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with Bench([PLAN, PLAN, LEFTMOST], prompt_style="chat") as bench:
        generate, cut = bench.llm.generate, iter([True])

        def first_is_cut(prompts: Any, sampling: Any) -> Any:
            done = generate(prompts, sampling)
            reason = "length" if next(cut, False) else "stop"
            return [[replace(each, finish_reason=reason) for each in row] for row in done]

        monkeypatch.setattr(bench.llm, "generate", first_is_cut)
        result = bench.reasoner.run(picture(), "the leftmost cube", strategy="plan")
    assert result.answer is not None and result.trace.usage.llm_calls == 3
