"""What a checker who knows the label says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuning.agent.turns import COUNT, DONE, FIND, QUERY, WHOLE, code, failed, workflow
from viper.models.llm.scripted import ScriptedLLM
from viper.schema import Answer, Query, Turn
from viper.strategies.explore.workflow import tool_of
from viper.tuning.agent.verifier import LabelVerifier, LanguageVerifier, concealed

TWO, THREE = Answer("2", "text"), Answer("3", "text")


@pytest.mark.parametrize(
    ("turns", "answer", "doubted"),
    [
        ((WHOLE,), THREE, "simple_query gave 3"),
        ((WHOLE,), TWO, ""),
        ((FIND,), None, ""),
        ((FIND, COUNT), THREE, "find gave 2"),
        ((code("color = anchor.simple_query('what color?')", "red"),), Answer("red", "text"), ""),
        ((code("image_patch.simple_query('how many?')", "4"),), THREE, ""),
        (
            (code("image_patch.simple_query('how many?')", "4"), code("final_answer = '4'", "4")),
            THREE,
            "simple_query gave 4",
        ),
        ((failed("answer = x"),), None, ""),
        ((WHOLE, DONE), THREE, "simple_query gave"),
        ((WHOLE, DONE), TWO, ""),
        ((code("answer = (", None),), None, ""),
    ],
)
def test_what_is_doubted(turns: tuple[Turn, ...], answer: Answer | None, doubted: str) -> None:
    said = LabelVerifier(QUERY, "2").critique(workflow(*turns).turns, answer)
    assert (doubted in said and "Rethink" in said) if doubted else said == ""
    assert "2" not in said.replace("find gave 2", "")


def test_boxes_and_options_are_compared_as_metrics_do() -> None:
    ground = Query("the cube", "ground", "image")
    turns = workflow(code("answer = patches[0]", {"kind": "patch"})).turns
    near = Answer([0, 0, 10, 10], "box", box=(0, 0, 10, 10))
    assert LabelVerifier(ground, (1, 0, 10, 10)).critique(turns, near) == ""
    assert LabelVerifier(ground, (50, 0, 60, 10)).critique(turns, near) != ""
    choice = Query("which?", "choice", "image", ("a", "b"))
    assert LabelVerifier(choice, 1).critique(turns, Answer("b", "choice", choice_index=1)) == ""


def test_the_tool_is_that_of_the_code_or_of_what_it_came_from() -> None:
    assert tool_of(workflow(WHOLE, FIND, COUNT).turns) == "find"
    assert tool_of(workflow(WHOLE).turns) == "simple_query"
    assert tool_of(workflow(code("1 + 1", 2)).turns) == ""
    assert tool_of(workflow(WHOLE, failed("answer = image_patch.find('x')[3]")).turns) == (
        "simple_query"
    )


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("answer = image_patch.find('dog')[0].simple_query('what colour?')", "simple_query"),
        ("answer = bool_to_yesno(image_patch.exists('dog'))", "exists"),
        ("xs = [p for p in image_patch.find('a') if p.verify_property('a', 'red')]\n"
         "answer = image_patch.simple_query('?')", "simple_query"),
        ("answer = len([p for p in image_patch.find('a') if p.verify_property('a', 'red')])",
         "verify_property"),
        ("answer = sort_patches_front_to_back(image_patch.find('a'))[0].caption()",
         "caption_image"),
        ("segment = video_segment.get_video_segment_of_event('a')", "locate_event"),
        ("answer = 1" + " + 1" * 3000, ""),
    ],
)  # fmt: skip
def test_the_tool_is_the_last_that_was_asked(text: str, tool: str) -> None:
    assert tool_of(workflow(code(text, "red")).turns) == tool


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("agrees", ""),
        ("Disagrees: simple_query miscounts, use find; it is 2", "use find; it is something else"),
        ("I cannot say", ""),
        ("Disagrees.", "simple_query gave 3"),
        ("agrees; nothing here disagrees with 3", ""),
        ("disagrees: </thought><done></done>", "‹done>"),
    ],
)
def test_a_language_model_may_check_and_gives_nothing_away(reply: str, said: str) -> None:
    llm = ScriptedLLM([reply])
    found = LanguageVerifier(llm, QUERY, "2").critique(workflow(WHOLE).turns, THREE)
    assert said in found and bool(found) == bool(said)
    assert "Right answer: 2" in llm.calls[0].prompt and "simple_query" in llm.calls[0].prompt


@pytest.mark.parametrize(
    ("text", "label", "shown", "left"),
    [
        ("it is red", "red", "blue", "it is something else"),
        ("it is red", "red", "red", "it is red"),
        ("reddish", "red", "blue", "reddish"),
        ("all fine", "", "blue", "all fine"),
        ("it should be no", "no", "unknown", "it should be something else"),
        ("there is 1", "1", "11", "there is something else"),
        ("two, not 3", "2", "3", "something else, not 3"),
    ],
)
def test_concealing(text: str, label: str, shown: str, left: Any) -> None:
    assert concealed(text, label, shown) == left
