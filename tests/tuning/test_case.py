"""Stored runs with what a person said of them are cases, which both reflectors take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.strategies.bench import Bench, picture
from viper.errors import UsageError
from viper.models.llm.scripted import ScriptedLLM
from viper.tuning.case import Case
from viper.tuning.language_reflector import LanguageReflector
from viper.tuning.reflector import InterventionReflector

RING = """def execute_command(image):
    rings = ImagePatch(image).find('ring')
    return str(len(rings))
"""
"""The detector sees two rings, one of them below its threshold."""


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench([]) as made:
        yield made


def case(bench: Bench, desired: Any, comment: str = "") -> Case:
    result = bench.reasoner.execute(
        RING, picture(), "how many rings?", task="question", self_tune=False
    )
    found = Case.of(result.trace, result.media, desired, comment)
    assert found is not None
    return found


def test_a_right_answer_lets_the_tool_be_blamed(bench: Bench) -> None:
    found = case(bench, "2", "one is faint")
    assert found.answer is not None
    assert (found.desired, found.comment, found.answer.value) == ("2", "one is faint", "1")
    critique = InterventionReflector(bench.reasoner.components).reflect(found)
    assert (critique.location, critique.step) == ("tool:find", 0)


def test_words_alone_go_to_the_reflector_that_reads_them(bench: Bench) -> None:
    found = case(bench, None, "you missed the faint one behind the cube")
    critique = InterventionReflector(bench.reasoner.components).reflect(found)
    assert (critique.location, critique.reason) == ("none", "the desired answer is not known")
    llm = ScriptedLLM(["location: tool\ntool: find\nreason: it missed one"])
    assert LanguageReflector(llm).reflect(found).location == "tool:find"
    prompt = llm.calls[0].prompt
    assert "A person says: you missed the faint one behind the cube" in prompt
    assert prompt.count("The right answer:") == 1  # the one of the prompt's example


def test_what_is_no_answer_of_the_task_is_refused(bench: Bench) -> None:
    result = bench.reasoner.execute(RING, picture(), "the ring", task="ground", self_tune=False)
    with pytest.raises(UsageError, match="expected a box"):
        Case.of(result.trace, result.media, "the left one")


def test_no_program_no_case(bench: Bench) -> None:
    result = bench.reasoner.run(picture(), "what color is this?", strategy="vqa")
    assert Case.of(result.trace, result.media, "2") is None
