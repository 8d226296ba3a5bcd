"""A profile with the name of a paper runs the method of that paper."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.strategies.bench import Bench, picture
from tests.strategies.seek.test_seek import QUESTION, STRAIGHT
from tests.strategies.seek.test_seek import Bench as SeekBench
from tests.strategies.seek.test_seek import picture as two_lamps
from viper.api.sets import TOOL_SETS
from viper.errors import ProfileError
from viper.models.llm.scripted import ScriptedLLM
from viper.profiles.files import read_profile, shipped_profiles
from viper.profiles.wiring import load_profile
from viper.reasoner import Reasoner
from viper.run_result import RunResult

LINES = (
    "BOX0=LOC(image=IMAGE,object='cube')\nANSWER0=COUNT(box=BOX0)\nFINAL_RESULT=RESULT(var=ANSWER0)"
)
WRONG = "def execute_command(image):\n    return nonsense\n"
COUNT = "def execute_command(image):\n    return len(ImagePatch(image).find('cube'))\n"


def run(name: str, replies: list[str], **options: Any) -> tuple[RunResult, ScriptedLLM]:
    """Ask one question under a shipped profile, with the tools of the tests."""
    llm = ScriptedLLM(replies)
    with Bench([]) as bench:
        parts = load_profile(name).components()
        toolbox = bench.reasoner.components.toolbox
        parts = replace(parts, models={"llm": llm}, toolbox=toolbox)
        with Reasoner(parts, preload=False) as reasoner:
            return reasoner.run(picture(), "How many cubes are there?", **options), llm


def fenced(program: str) -> str:
    return f"```python\n{program}```"


def test_programmers_write_programs_from_scratch_five_times_at_the_same_temperature() -> None:
    wrong = [fenced(WRONG.replace("nonsense", f"nonsense{n}")) for n in range(4)]
    result, llm = run("paper-programmers", [*wrong, fenced(COUNT)])
    assert result.trace.strategy == "program" and result.trace.api == "abstract"
    assert result.answer is not None and result.answer.value == 2
    assert len(result.trace.trials) == 5
    assert {call.sampling.temperature for call in llm.calls} == {0.4}
    assert not any("nonsense" in call.prompt for call in llm.calls)
    assert not any("Solved queries" in call.prompt for call in llm.calls)


def test_programmers_take_an_answer_of_any_kind_and_tune_on_failures_alone() -> None:
    settings = load_profile("paper-programmers").document.run
    assert settings.on_misfit == "accept" and settings.self_tune and not settings.tune_on_evidence
    result, llm = run("paper-programmers", [fenced(COUNT.replace("len(", "str("))])
    assert llm.remaining == 0 and result.answer is not None


def test_clova_plans_and_writes_lines() -> None:
    result, llm = run("paper-clova", ["1. Find all cubes.\n2. Count them.", fenced(LINES + "\n")])
    assert result.trace.strategy == "plan" and result.trace.api == "visprog"
    assert result.trace.program is not None and result.trace.program.strip() == LINES
    assert result.answer is not None and result.answer.value == 2
    settings = load_profile("paper-clova").document.run.flat()
    assert settings["correct_demonstrations"] == settings["incorrect_demonstrations"] == 4
    assert settings["reflector"] == "llm"


def test_dwim_explores_with_the_tools_of_its_task() -> None:
    code = "<code>final_answer = len(image_patch.find('cube'))</code>"
    result, llm = run("paper-dwim", [code, "<done></done>"])
    assert result.trace.strategy == "explore" and result.trace.api in TOOL_SETS
    assert result.answer is not None and result.answer.value == 2
    assert "def sort_patches" not in llm.calls[0].prompt and "def find" in llm.calls[0].prompt


def test_avis_seeks_with_decisions_and_the_data_of_the_whole_picture() -> None:
    llm = ScriptedLLM(STRAIGHT)
    toolbox = SeekBench([]).reasoner.components.toolbox
    parts = replace(load_profile("paper-avis").components(), models={"llm": llm}, toolbox=toolbox)
    with Reasoner(parts, preload=False) as reasoner:
        result = reasoner.run(two_lamps(), QUESTION)
    assert result.trace.strategy == "seek"
    assert result.answer is not None and result.answer.value == "1893"
    assert "the whole picture: a red lamp" in result.trace.path[1]["picture"]
    first = next(call.prompt for call in llm.calls if "You look for the answer" in call.prompt)
    for action in ("caption", "vqa", "detect"):
        assert len(re.findall(rf"^Next: {action}\b", first, re.MULTILINE)) == 4
    assert {call.sampling.temperature for call in llm.calls} == {0.0}


def test_no_paper_shows_queries_that_we_solved_by_hand() -> None:
    papers = [name for name in shipped_profiles() if name.startswith("paper-")]
    assert len(papers) == 4
    assert not any(load_profile(name).document.run.careful for name in papers)


def test_an_unknown_strategy_of_a_profile_is_one_line(tmp_path: Any) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[run]\nstrategy = "sek"\n[llm]\nbackend = "openai"\n')
    with pytest.raises(ProfileError, match=r":2: run\.strategy: unknown strategy 'sek'.*seek"):
        read_profile(str(path))
