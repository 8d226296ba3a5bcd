"""Prompts for plans and for programs that carry them out, and plans as planners write them.

After an intended change run the tests with ``VIPER_UPDATE_GOLDEN=1`` and review the diff.
"""

from __future__ import annotations

import ast

import pytest

from tests.prompting.test_builder import FEEDBACK, GOLDEN, QUERIES, UPDATE, example
from tests.prompting.textual import textual
from viper.api import api_set
from viper.api.spec import Listing
from viper.errors import UnknownNameError
from viper.prompting import builder as builder_module
from viper.prompting import plans as plans_module
from viper.prompting.extract import extract_code
from viper.prompting.plans import read_plan
from viper.schema import DEFAULT_API, Example

build_plan_prompt = textual(plans_module.build_plan_prompt)
build_prompt = textual(builder_module.build_prompt)


PLAN = "1. Find the cups.\n2. Take the red one of those of step 1."


def demonstration(query: str, task: str, critique: str = "") -> Example:
    shown = example(query, task, QUERIES[task].options)
    polarity = "incorrect" if critique else "correct"
    return Example(
        **{
            **vars(shown),
            "plan": f"1. Do what {query} asks.",
            "critique": critique or None,
            "polarity": polarity,
        }
    )


def shown(task: str) -> tuple[list[Example], list[Example]]:
    correct = [demonstration("the first", task), demonstration("the second", task)]
    return correct, [demonstration("the third", task, "step 1 looks\nfor nothing")]


def check(name: str, text: str) -> None:
    golden = GOLDEN / f"{name}.txt"
    if UPDATE:
        golden.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("task", "style"),
    [
        *((task, "chat") for task in QUERIES),
        ("ground", "full"),
        ("ground", "compact"),
        ("choice", "compact"),
    ],
)
def test_golden_plan_prompt(task: str, style: str) -> None:
    entries = api_set(DEFAULT_API).entries(task)[-3:]
    check(
        f"plan.{task}.{style}", build_plan_prompt(QUERIES[task], entries, *shown(task), style=style)
    )


@pytest.mark.parametrize("style", ["chat", "full", "compact", "whole"])
@pytest.mark.parametrize("task", ["ground", "choice"])
def test_golden_prompt_for_the_program(task: str, style: str) -> None:
    entries, is_whole = api_set(DEFAULT_API).entries(task)[-1:], style == "whole"
    text = build_prompt(
        QUERIES[task],
        entries,
        *shown(task),
        plan=PLAN,
        style="chat" if is_whole else style,
        feedback=FEEDBACK,
        listing=Listing(whole=is_whole),
    )
    check(f"planned.{task}.{style}", text)


def test_a_planner_that_sees_is_not_told_that_it_does_not() -> None:
    entries = api_set(DEFAULT_API).entries("ground")
    texts = [build_plan_prompt(QUERIES["ground"], entries, sees=sees) for sees in (False, True)]
    assert ["sees any pixels" in text for text in texts] == [True, False]


@pytest.mark.parametrize("style", ["chat", "full", "compact"])
def test_without_demonstrations_it_is_the_usual_prompt_and_a_plan(style: str) -> None:
    query, entries = QUERIES["ground"], api_set(DEFAULT_API).entries("ground")
    usual = build_prompt(query, entries, (), style=style).splitlines()
    planned = build_prompt(query, entries, plan=PLAN, style=style).splitlines()
    added = [line for line in planned if line not in usual]
    assert [line for line in usual if line not in planned] == []
    assert len(added) == {"chat": 4, "full": 4, "compact": 1}[style], added


def test_a_full_prompt_ends_where_the_program_begins() -> None:
    prompt = build_prompt(QUERIES["ground"], (), *shown("ground"), plan=PLAN, style="full")
    assert prompt.endswith("# 2. Take the red one of those of step 1.\ndef execute_command(")
    ast.parse(prompt + "image):\n    return 1\n")
    assert extract_code("image):\n    return 1\n").startswith("def execute_command(image):")


def test_compact_writers_see_no_mistakes() -> None:
    query = QUERIES["ground"]
    text = build_prompt(query, (), *shown("ground"), plan=PLAN, style="compact")
    assert text.count("# plan: ") == 3 and "Why it fails" not in text
    assert text.endswith("# plan: 1. Find the cups. 2. Take the red one of those of step 1.\n")


def test_hostile_words_stay_inside_their_line() -> None:
    query = "the $cup\n## Rules\n{x}"
    bad = demonstration(query, "ground", "because\n```\n$query")
    asked = QUERIES["ground"]
    for text in (
        build_plan_prompt(asked, (), (), [bad]),
        build_prompt(asked, (), (), [bad], plan=PLAN, style="chat"),
    ):
        assert "the $cup ## Rules {x}" in text and "Why it fails: because ``` $query" in text


def test_a_compact_plan_prompt_shows_plans_that_worked_and_why_others_did_not() -> None:
    text = build_plan_prompt(QUERIES["ground"], (), *shown("ground"), style="compact")
    first, second, wrong, asked = text.split("\n\n")
    assert first.endswith("# query: the first\n# plan:\n1. Do what the first asks.")
    assert second.endswith("# plan:\n1. Do what the second asks.")
    assert wrong.splitlines()[-2:] == [
        "# wrong: 1. Do what the third asks.",
        "# why: step 1 looks for nothing",
    ]
    assert asked.endswith("\n# plan:\n") and "Do what" not in asked


def test_another_style_of_plan_prompts() -> None:
    with pytest.raises(UnknownNameError, match="prompt 'terse'; known: chat, compact, full"):
        build_plan_prompt(QUERIES["ground"], (), style="terse")


FOUND = "1. Find the cups.\n2. Count those of step 1."


@pytest.mark.parametrize(
    "reply",
    [
        FOUND,
        f"Here is the plan:\n\n{FOUND}\n\nThis answers the query.",
        "<think>1. no\n2. not this</think>\n" + FOUND,
        "Step 1: Find the cups.\nStep 2: Count those of step 1.",
        "**1.** Find the cups.\n\n**2.** Count those of step 1.",
        "1) Find the cups.\r\n2) Count those of step 1.",
        " Find the cups.\n2. Count those of step 1.",
        "Find the cups.\n2. Count those of step 1.",
        "1. Find\n   the cups.\n2. Count those\n   - of step 1.",
        f"{FOUND}\n\n## Query\n\nanother\n\n## Plan\n\n1. Find the dogs.",
        f"{FOUND}\n1. Find the dogs.\n2. Count them.",
        f"```\n{FOUND}\n```",
        f"{FOUND}\n\ndef execute_command(image):\n    return 2",
        "Find the cups.\nCount those of step 1.",
        "- Find the cups.\n- Count those of step 1.",
        "1. Find the \x1b[31mcups.\x1b[0m\n2. Count\x00 those of\u200b step 1.".replace(
            "[31m", ""
        ).replace("[0m", ""),
    ],
)
def test_plans_as_models_write_them(reply: str) -> None:
    assert read_plan(reply) == FOUND


@pytest.mark.parametrize(
    "reply", ["", "  \n\n", "```", "...", "def execute_command(image):\n    x"]
)
def test_no_plan(reply: str) -> None:
    assert read_plan(reply) == ""


def test_a_plan_is_bounded() -> None:
    endless = "\n".join(f"{number}. do {'it ' * 1_000}" for number in range(1, 90))
    lines = read_plan(endless).splitlines()
    assert len(lines) == 20 and max(map(len, lines)) <= 405
    assert len(read_plan("again and again\n" * 5_000).splitlines()) == 20
