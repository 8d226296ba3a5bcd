"""Prompts in three styles, compared with golden files.

After an intended change run the tests with ``VIPER_UPDATE_GOLDEN=1`` and review the diff.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.prompting.textual import textual
from viper.api import api_set
from viper.api.spec import Listing
from viper.errors import UnknownNameError
from viper.prompting import builder as builder_module
from viper.prompting.builder import build_select_prompt, entry_point, guidelines_for, info_text
from viper.prompting.compact import compact_document
from viper.prompting.extract import extract_code
from viper.prompting.feedback import FailedProgram
from viper.schema import DEFAULT_API, PROMPT_STYLES, Example, Failure, Query

build_prompt = textual(builder_module.build_prompt)


GOLDEN = Path(__file__).parent / "golden"
UPDATE = os.environ.get("VIPER_UPDATE_GOLDEN") == "1"

QUERIES = {
    "ground": Query("the red cup", task="ground"),
    "question": Query("How many cups are there?", task="question"),
    "choice": Query("What stops first?", task="choice", media="video", options=("cup", "ball")),
    "statement": Query("There are two cups.", task="statement"),
    "edit": Query("Hide the cup.", task="edit"),
    "tag": Query("Tag all the cups.", task="tag"),
}


def example(query: str, task: str, options: tuple[str, ...] = ()) -> Example:
    program = f"def {entry_point(task)}:\n    return 1\n"
    return Example(query, program, task, "abstract", 1.0, "s0", 0, "x", "0" * 12, options=options)


FEEDBACK = FailedProgram(
    "def execute_command(image):\n    return cups[0]\n",
    Failure(
        "runtime",
        "name 'cups' is not defined",
        line=2,
        source_line="    return cups[0]",
        exception="NameError",
    ),
)


@pytest.mark.parametrize("style", PROMPT_STYLES)
@pytest.mark.parametrize("task", QUERIES)
def test_golden(task: str, style: str) -> None:
    query = QUERIES[task]
    examples = [example("the first", task, query.options), example("the second", task)]
    entries = api_set(DEFAULT_API).entries(task)[-1:]
    text = build_prompt(query, entries, examples, style=style, feedback=FEEDBACK) + "\n"
    golden = GOLDEN / f"{task}.{style}.txt"
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("task", QUERIES)
def test_profiles_that_print_the_whole_api_ask_as_before(task: str) -> None:
    query = QUERIES[task]
    examples = [example("the first", task, query.options), example("the second", task)]
    entries, whole = api_set(DEFAULT_API).entries(task)[-1:], Listing(whole=True)
    text = build_prompt(query, entries, examples, style="chat", feedback=FEEDBACK, listing=whole)
    assert f"{text}\n" == (GOLDEN / f"{task}.whole.txt").read_text(encoding="utf-8")


def test_compact_is_what_the_writer_was_trained_on() -> None:
    entries = api_set(DEFAULT_API).entries("choice")
    query, shown = QUERIES["choice"], [example("why?", "choice", ("a", "b"))]
    assert build_prompt(query, entries, shown, style="compact") == compact_document(
        entries, "choice", shown, query.text, query.options
    )


@pytest.mark.parametrize("task", QUERIES)
def test_a_full_prompt_ends_where_its_completion_begins(task: str) -> None:
    prompt = build_prompt(QUERIES[task], api_set(DEFAULT_API).entries(task), (), style="full")
    assert prompt.endswith("\ndef execute_command(")
    arguments = entry_point(task).partition("(")[2]
    program = f"def execute_command({arguments}:\n    return 1"
    assert extract_code(f"{arguments}:\n    return 1\n\n\n# query: next") == program


@pytest.mark.parametrize("style", ["full", "chat"])
def test_every_part_is_there_or_left_out(style: str) -> None:
    entries = api_set(DEFAULT_API).entries("ground")
    bare = build_prompt(QUERIES["ground"], entries, (), style=style)
    assert "the red cup" in bare and "y grows upwards" in bare and "class ImagePatch" in bare
    assert "Solved queries" not in bare and "earlier attempt" not in bare
    assert "$" not in bare
    told = build_prompt(QUERIES["ground"], entries, (), style=style, feedback=FEEDBACK)
    assert "NameError: name 'cups' is not defined" in told
    assert "return cups[0]" in told


def test_dollars_and_braces_of_a_query_stay_as_they_are() -> None:
    query = Query("the $query {x} costing $5", task="ground")
    for style in PROMPT_STYLES:
        assert "the $query {x} costing $5" in build_prompt(query, (), (), style=style)


def test_guidelines_say_what_a_task_returns() -> None:
    rules = {task: guidelines_for(query) for task, query in QUERIES.items()}
    assert "Return one ImagePatch" in rules["ground"]
    assert "truth value" in rules["question"]
    assert "possible answers, word for word" in rules["choice"]
    assert "execute_command(video, question, possible_answers)" in rules["choice"]
    assert "y grows upwards" in rules["choice"]
    assert "y grows upwards" not in guidelines_for(QUERIES["choice"], sees_patches=False)
    assert "y grows upwards" not in guidelines_for(QUERIES["choice"], with_common=False)


def test_feedback_without_a_line() -> None:
    feedback = FailedProgram("x", Failure("timeout", "took longer than 5 s"))
    text = build_prompt(QUERIES["ground"], (), (), style="chat", feedback=feedback)
    assert "It failed.\nTook longer than 5 s.\n" in text


def test_unknown_style() -> None:
    with pytest.raises(UnknownNameError, match="prompt style 'short'; known: chat, compact"):
        build_prompt(QUERIES["ground"], (), (), style="short")
    with pytest.raises(UnknownNameError, match="unknown prompt style"):
        build_select_prompt("x", "y?", ["a"], "short")


def test_selection() -> None:
    compact = build_select_prompt({"seen": "a cup", "n": 2}, "what?", ["a", "b"])
    assert compact == ("# info: seen: a cup; n: 2\n# question: what?\n# options: a; b\n# answer:")
    full = build_select_prompt("a cup", "what?", ["a", "b"], "full")
    assert "Question: what?\nOptions:\n- a\n- b\n" in full and full.endswith("Answer:")


def test_information_as_text() -> None:
    assert info_text("a\n b") == "a b"
    assert info_text({"x": ["a", "b"], "y": True}) == "x: a; b; y: True"
    assert info_text(None) == "None"


def test_an_example_that_failed_keeps_its_mistake() -> None:
    program = (
        "def execute_command(image):\n    image_patch = ImagePatch(image)\n"
        "    cups = image_patch.find('cup')\n    # the surest\n    return cups[0]\n"
    )
    shown = replace(example("the first cup", "ground"), program=program)
    failed = replace(shown, critique="cups may be empty", polarity="incorrect")
    text = build_prompt(QUERIES["ground"], (), [shown], [failed], style="chat", plan="1. look")
    solved, wrong = text.split("## Programs that did not work")
    assert "return (cups or [image_patch])[0]" in solved and "# the surest" not in solved
    assert "return cups[0]" in wrong and "Why it fails: cups may be empty" in wrong
