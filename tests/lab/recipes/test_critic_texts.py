"""The critic's texts: injected faults, words exchanged, and shards that are whole or not there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from viper.errors import DataError
from viper.models.llm.scripted import ScriptedLLM
from viper.strategies.critique import Critique
from viper.tuning.language_reflector import parse_fault
from viper_lab.faults import cases as fault_cases
from viper_lab.faults.cases import FaultCase, read_cases, target_of, write_cases
from viper_lab.recipes.critic import (
    FaultLine,
    critic_documents,
    evaluate,
    exchange,
    pieces_of,
    read_line,
)

PROMPT = """# task: question
# query: what color is the metal cube left of the cones?
def execute_command(image):
    patches = ImagePatch(image).find('metal cube')
    return patches[0].simple_query('what color is this?')
# 0 find image0, metal cube: 1; 34 92 83
# 1 simple_query 0.0, what color is this?: red
# answer: red
# desired: blue
# fault:"""
TOOL = FaultCase("question", "tool", "a wrong answer", PROMPT, " 1 simple_query: blue\n")
PROGRAM = FaultCase("question", "program", "direction", PROMPT, " program\n")


def test_words_change_places_alike_in_prompt_and_target() -> None:
    changes = 0
    for seed in range(20):
        prompt, fault = exchange((PROMPT, TOOL.fault), Random(seed))
        desired = re.search(r"# desired: (\w+)", prompt)
        assert desired is not None and fault == f" 1 simple_query: {desired[1]}\n"
        shape = re.search(r"find image0, (\w+) (\w+):", prompt)
        assert shape is not None and f".find('{shape[1]} {shape[2]}')" in prompt
        assert "left of the " in prompt and "what color is this?" in prompt
        assert f"left of the {shape[2]}s" not in prompt
        changes += prompt != PROMPT
    assert changes > 15


def test_only_the_fault_counts_and_right_programs_now_and_then() -> None:
    learned_programs = 0
    for seed in range(100):
        before, program, after, fault = pieces_of(TOOL, Random(seed))
        assert (before.learned, after.learned, fault.learned) == (False, False, True)
        assert program.text.startswith("def ") and after.text.endswith("# fault:")
        learned_programs += program.learned
        assert not pieces_of(PROGRAM, Random(seed))[1].learned
    assert 5 < learned_programs < 45


def test_the_desired_answer_is_left_out_now_and_then() -> None:
    texts = ["".join(p.text for p in pieces_of(TOOL, Random(seed))) for seed in range(200)]
    without = [text for text in texts if "# desired" not in text]
    assert 0 < len(without) < 30 and all("# answer: " in text for text in without)


def test_families_and_sorts_are_drawn_equally_often() -> None:
    documents = critic_documents([TOOL] * 30 + [PROGRAM], Random(0))
    ends = [next(documents)[-1].text for _ in range(60)]
    assert 15 < sum("program" in end for end in ends) < 45


@pytest.mark.parametrize(
    ("truth", "line"),
    [
        (Critique("program", None, "direction", "def f(): ..."), " program\n"),
        (Critique.of_tool("simple_query", 1, "", "blue"), " 1 simple_query: blue\n"),
        (Critique.of_tool("verify_property", 2, "", True), " 2 verify_property: True\n"),
        (Critique.of_tool("find", 0, "", [{"kind": "patch", "fields": []}]), " 0 find\n"),
    ],
)
def test_targets_are_what_the_reflector_reads(truth: Critique, line: str) -> None:
    tools = {0: "find", 1: "simple_query", 2: "verify_property"}
    assert target_of(truth) == line
    read = parse_fault(line, tools)
    assert (read.location, read.step) == (truth.location, truth.step)


def test_what_a_line_names() -> None:
    assert read_line(" 1 simple_query: blue\n") == FaultLine("simple_query", "1")
    assert read_line(" program\n") == FaultLine("program", "")
    assert read_line("") == FaultLine("", "") and read_line("a b c") == FaultLine("a b c", "")


def test_scores_count_place_and_call() -> None:
    other_call = FaultCase("question", "tool", "x", PROMPT, " 0 simple_query: blue\n")
    llm = ScriptedLLM([" 1 simple_query: red\n", " 1 simple_query: blue\n", " 0 find\n"])
    assert evaluate(llm, [TOOL, other_call, PROGRAM]) == {
        "location": pytest.approx(2 / 3),
        "step": pytest.approx(1 / 3),
        "location/tool": 1.0,
        "location/program": 0.0,
    }


def test_shards_are_kept_and_broken_ones_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def shard(components: Any, split: str, seed: int, number: int) -> Any:
        made.append(number)
        for place in range(4):
            if number == 2 and place == 3 and made.count(2) == 1:
                raise KeyboardInterrupt
            yield json.dumps(vars(TOOL))

    monkeypatch.setattr(fault_cases, "_shard", shard)
    parts: Any = None
    with pytest.raises(KeyboardInterrupt):
        write_cases(parts, tmp_path, 10)
    assert len(read_cases(tmp_path, "train")) == 8
    assert write_cases(parts, tmp_path, 10) == 12 and made == [0, 1, 2, 2]
    assert not list(tmp_path.glob("*.part"))
    with pytest.raises(
        DataError, match="no injected faults of the split val; .*viper lab world faults"
    ):
        read_cases(tmp_path, "val")
    assert read_cases(tmp_path, "val", needed=False) == []
    (tmp_path / "train-0-0009.jsonl").write_text('{"prompt": 1}\n')
    with pytest.raises(DataError, match="train-0-0009.jsonl:1: not an injected fault"):
        read_cases(tmp_path, "train")
