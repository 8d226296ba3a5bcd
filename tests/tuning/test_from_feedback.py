"""Stored runs with remarks become cases, which both reflectors take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.strategies.bench import Bench, picture
from viper.errors import UsageError
from viper.llm.scripted import ScriptedLLM
from viper.tuning.case import Case
from viper.tuning.from_feedback import case_of
from viper.tuning.language_reflector import LanguageReflector
from viper.tuning.reflector import InterventionReflector

RING = """def execute_command(image):
    rings = ImagePatch(image).find('ring')
    return str(len(rings))
"""
"""The detector sees two rings, one of them below its threshold."""


@dataclass(frozen=True)
class Said:
    answer: Any = None
    comment: str = ""


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench([]) as made:
        yield made


def case(bench: Bench, *said: Said, query: str = "how many rings?") -> Case:
    result = bench.reasoner.execute(RING, picture(), query, task="question", self_tune=False)
    found = case_of(result.trace, said, result.media)
    assert found is not None
    return found


def test_a_label_is_the_desired_answer(bench: Bench) -> None:
    found = case(bench, Said("2", "one is faint"))
    assert (found.desired, found.comment, found.answer.value) == ("2", "one is faint", "1")  # type: ignore[union-attr]


def test_a_comment_that_states_it_lets_the_tool_be_blamed(bench: Bench) -> None:
    found = case(bench, Said(comment="wrong: there are two"))
    assert found.desired == 2 and found.comment == "wrong: there are two"
    critique = InterventionReflector(bench.reasoner.components).reflect(found)
    assert (critique.location, critique.step) == ("tool:find", 0)


def test_words_alone_go_to_the_reflector_that_reads_them(bench: Bench) -> None:
    found = case(bench, Said(comment="you missed the faint one behind the cube"))
    assert found.desired is None
    critique = InterventionReflector(bench.reasoner.components).reflect(found)
    assert (critique.location, critique.reason) == ("none", "the desired answer is not known")
    llm = ScriptedLLM(["location: tool\ntool: find\nreason: it missed one"])
    assert LanguageReflector(llm).reflect(found).location == "tool:find"
    prompt = llm.calls[0].prompt
    assert "A person says: you missed the faint one behind the cube" in prompt
    assert "The right answer:" not in prompt


def test_the_last_right_answer_counts_and_all_comments_stay(bench: Bench) -> None:
    first, second = Said("3", "maybe three"), Said(comment="no, there are 2")
    found = case(bench, first, second, second, Said(comment="the ball hides it"))
    assert found.desired == 2
    assert found.comment == "maybe three\nno, there are 2\nthe ball hides it"
    assert case(bench, second, first).desired == "3"


def test_what_is_no_answer_of_the_task_is_refused(bench: Bench) -> None:
    result = bench.reasoner.execute(RING, picture(), "the ring", task="ground", self_tune=False)
    with pytest.raises(UsageError, match="expected a box"):
        case_of(result.trace, [Said("the left one")], result.media)


def test_the_plan_belongs_to_the_case() -> None:
    with Bench(["1. Find the rings.", RING], prompt_style="chat") as bench:
        result = bench.reasoner.run(picture(), "how many rings?", strategy="plan")
    found = case_of(result.trace, [Said("2")], result.media)
    assert found is not None and found.plan == "1. Find the rings."


def test_no_program_no_case(bench: Bench) -> None:
    result = bench.reasoner.run(picture(), "what color is this?", strategy="vqa")
    assert case_of(result.trace, [Said("2")], result.media) is None
