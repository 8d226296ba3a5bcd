"""A language model's critiques, by script."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.strategies.bench import Bench
from viper.errors import UnknownNameError, UsageError
from viper.models.edited import Origin
from viper.models.llm.scripted import ScriptedLLM
from viper.models.media import media_from
from viper.schema import Answer, Failure, Query, ToolCall, Trial
from viper.strategies.critique import Critique, CritiqueError
from viper.tuning.case import Case
from viper.tuning.language_reflector import LanguageReflector
from viper.tuning.reflector import InterventionReflector, Reflector
from viper.tuning.wiring import reflectors_of

WHOLE = {"kind": "patch", "fields": ["image0", 0, 0, 100, 60]}
ONE = {"kind": "patch", "fields": ["image0", 10, 10, 20, 20]}
LOG = (
    ToolCall(0, "find", (WHOLE, "cube"), {}, [ONE], 0.0, scores=(0.9,)),
    ToolCall(1, "simple_query", (ONE, "what color?"), {}, "red", 0.0),
)


def case(desired: object = "blue", **more: object) -> Case:
    program = "def execute_command(image):\n    return answer"
    failure, plan = more.pop("failure", None), more.pop("plan", None)
    trial = Trial(0, program, "first", failure is None, failure, {}, LOG, "", 0.0, plan=plan)  # type: ignore[arg-type]
    media = media_from(np.zeros((60, 100, 3), np.uint8))
    answer = Answer("red", "text") if failure is None else None
    query = Query("what color is the cube?", "question")
    return Case(query, media, trial, answer, desired, **more)  # type: ignore[arg-type]


def test_the_whole_run_is_shown_at_once() -> None:
    said = "Location: tool\nTool: simple_query\nReason: it is blue\nDesired: unknown"
    llm = ScriptedLLM([said, "Answer: blue."])
    reflector = LanguageReflector(llm)
    assert isinstance(reflector, Reflector)
    found = reflector.reflect(case(comment="look at\nthe cube", plan="1. find the cube"))
    assert found == Critique.of_tool("simple_query", 1, "it is blue", "blue")
    prompt = llm.calls[0].prompt
    for part in (
        "what color is the cube?",
        "step 0: find(image0, 'cube')",
        "0.0: box [10, 10, 20, 20], score 0.90",
        "step 1: simple_query(0.0, 'what color?')",
        "Its answer: red",
        "The right answer: blue",
        "A person says: look at the cube",
        "1. find the cube",
        "location: plan, program, tool or none",
    ):
        assert part in prompt
    assert len(llm.calls) == 2


@pytest.mark.parametrize("reply", ["no", "Answer: 'No'.", "<think>hm</think>\nno"])
def test_the_wanted_vqa_answer_is_inferred_in_a_request_of_its_own(reply: str) -> None:
    llm = ScriptedLLM(["location: tool\ntool: simple_query\nreason: it is not", reply])
    found = LanguageReflector(llm).reflect(case(desired="no"))
    assert found.tool == "simple_query" and str(found.desired).lower() == "no"
    asked = llm.calls[1].prompt
    assert "Wrong: step 1, it is not" in asked and "step 1: simple_query(" in asked
    assert "The right answer: no" in asked


def test_other_tools_need_no_inferred_answer() -> None:
    llm = ScriptedLLM(["location: tool\ntool: find\nreason: missed\ndesired: two cubes"])
    assert LanguageReflector(llm).reflect(case()).desired == "two cubes"


def test_the_global_prompt_shows_one_example_and_the_local_prompt_none() -> None:
    llm = ScriptedLLM(["location: none"] * 3)
    LanguageReflector(llm).reflect(case())
    LanguageReflector(llm, scope="local").reflect(case())
    shown = [call.prompt.count("def execute_command") for call in llm.calls]
    assert shown == [2, 1, 1]


def test_pictures_and_edits_are_described() -> None:
    llm = ScriptedLLM(["location: none"])
    with Bench([]) as bench:
        toolbox = bench.reasoner.components.toolbox
        media = media_from(np.zeros((60, 100, 3), np.uint8)).for_run()
        name = media.edits.add(np.ones((60, 100, 3), np.uint8), Origin("image0"))
        value = {"picture": name, "width": 100, "height": 60}
        edited = replace(case(desired=None), media=media, answer=Answer(value, "image"))
        LanguageReflector(llm, toolbox).reflect(edited)
    prompt = llm.calls[0].prompt
    assert "The picture shows a picture" in prompt
    assert "Its answer: a picture that shows a picture" in prompt


def test_local_reflection_stops_at_the_first_fault() -> None:
    llm = ScriptedLLM(["location: none", "location: tool\nreason: it is blue\nstep: 0", "blue"])
    found = LanguageReflector(llm, scope="local").reflect(case())
    assert found == Critique.of_tool("simple_query", 1, "it is blue", "blue")
    first, second, _ = (call.prompt for call in llm.calls)
    assert "(none yet)" in first and "simple_query(" not in first.split("The call to judge")[1]
    assert "step 0: find" in second.split("The call to judge")[0]


def test_local_reflection_that_finds_nothing() -> None:
    found = LanguageReflector(ScriptedLLM(["location: none"] * 2), scope="local").reflect(case())
    assert (found.location, "2 calls" in found.reason) == ("none", True)


def test_a_failure_is_told_in_place_of_an_answer() -> None:
    llm = ScriptedLLM(["location: program"])
    failure = Failure("runtime", "list index out of range")
    LanguageReflector(llm).reflect(case(desired=None, failure=failure))
    assert "none; it failed: runtime: list index out of range" in llm.calls[0].prompt
    assert "The right answer" not in llm.calls[0].prompt.split("Now the run to judge.")[1]


def test_words_that_say_nothing_are_an_error() -> None:
    with pytest.raises(CritiqueError):
        LanguageReflector(ScriptedLLM(["I am not sure."])).reflect(case())


def test_names_that_do_not_exist() -> None:
    with pytest.raises(UnknownNameError, match="scope"):
        LanguageReflector(ScriptedLLM(), scope="galactic")


def test_who_learns_asks_the_critic() -> None:
    critic = ScriptedLLM(["location: tool\ntool: simple_query\nstep: 1", "location: none"])
    with Bench(
        ["unasked"], parts={"models": {"critic": critic}, "styles": {"critic": "chat"}}
    ) as bench:
        asked, _ = reflectors_of(bench.reasoner.components, "llm")
        assert asked.reflect(case()).tool == "simple_query" and not bench.llm.calls
        assert len(reflectors_of(bench.reasoner.components, "both")) == 3
    with Bench(["location: program"], prompt_style="chat") as bench:
        first, _ = reflectors_of(bench.reasoner.components, "llm")
        assert first.reflect(case()).location == "program" and len(bench.llm.calls) == 1


def test_a_small_writer_is_asked_for_no_fault() -> None:
    with Bench(["find"]) as bench:
        with pytest.raises(UsageError, match="name one as \\[critic\\]"):
            reflectors_of(bench.reasoner.components, "llm")
        assert reflectors_of(bench.reasoner.components, "none") == []
        (only,) = reflectors_of(bench.reasoner.components, "both")
        assert isinstance(only, InterventionReflector)
