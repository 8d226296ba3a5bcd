"""The prompts of search, agents, reflection, choices and mining, compared with golden files.

After an intended change run the tests with ``VIPER_UPDATE_GOLDEN=1`` and review the diff. The
prompts that ask for programs and plans have their golden files beside their own tests.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.prompting.textual import textual
from viper.api import api_set
from viper.api.spec import UNSHARED, Listing
from viper.models.llm.scripted import ScriptedLLM
from viper.prompting import exploring as exploring_module
from viper.prompting import seeking as seeking_module
from viper.prompting.builder import build_select_prompt
from viper.prompting.exploring import Action, Step
from viper.prompting.query_lines import build_query_prompt
from viper.prompting.reflection import (
    Reflection,
    build_acceptance_prompt,
    build_answer_prompt,
    build_global_prompt,
    build_local_prompt,
)
from viper.prompting.seeking import ActionChoice, Decision, DecisionExample
from viper.prompting.select import build_choice_prompt
from viper.schema import DEFAULT_API, Answer, Query, Turn
from viper.tuning.agent.verifier import LanguageVerifier

judge_prompt = textual(seeking_module.judge_prompt)
plan_prompt = textual(seeking_module.plan_prompt)
short_answer_prompt = textual(seeking_module.short_answer_prompt)
split_prompt = textual(seeking_module.split_prompt)
explore_prompt = textual(exploring_module.explore_prompt)


GOLDEN = Path(__file__).parent / "golden_other"
UPDATE = os.environ.get("VIPER_UPDATE_GOLDEN") == "1"

QUERIES = {
    "ground": Query("the red cup", task="ground"),
    "question": Query("How many cups are there?", task="question"),
    "choice": Query("What stops first?", task="choice", media="video", options=("cup", "ball")),
    "statement": Query("There are two cups.", task="statement", media="images"),
}
STEPS = (
    Step(Action("thought", "Find the cups first.")),
    Step(Action("code", 'cups = image.find("cup")\nprint(len(cups))'), "2"),
    Step(None, "no action could be read", "I think that there are two."),
)
ACTIONS = (
    ActionChoice("detect", "lists the objects of one kind", "the name of the object"),
    ActionChoice("text_search", "looks in an encyclopedia", "the words to look for"),
    ActionChoice("ocr", "reads what is written"),
)
DECISIONS = (
    DecisionExample("Who made the vase?", ("it is blue",), "text_search", "blue vase maker"),
)
REFLECTION = Reflection(
    "question",
    "How many cups are there?",
    ("one", "two"),
    "def execute_command(image):\n    return len(image.find('cup'))\n",
    ("1 find(image, 'cup') -> 3 patches", "2 verify(patch 1, 'red') -> yes"),
    "3",
    desired="2",
    comment="one of them is a bowl",
    plan="1. find the cups\n2. count them",
)


def explored(task: str, style: str, is_last: bool, listing: Listing = UNSHARED) -> str:
    query = QUERIES[task]
    return explore_prompt(
        query,
        api_set(DEFAULT_API).entries(task)[-2:],
        ["a table with cups", "an empty shelf"],
        STEPS,
        style=style,
        is_last=is_last,
        hint="two" if is_last else "",
        listing=listing,
    )


def checked() -> str:
    prompts: list[str] = []

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return "agrees"

    turns = [Turn(0, "code", 'n = len(image.find("cup"))', "3"), Turn(1, "done", "")]
    answer = Answer(3, "number")
    LanguageVerifier(ScriptedLLM(reply), QUERIES["question"], "2").critique(turns, answer)
    return prompts[0]


def all_prompts() -> dict[str, str]:
    prompts = {
        "explore_check": checked(),
        "reflect_global": build_global_prompt(REFLECTION),
        "reflect_local": build_local_prompt(REFLECTION, 1),
        "reflect_answer": build_answer_prompt(REFLECTION, 1, "it counts the handles"),
        "reflect_accept": build_acceptance_prompt(REFLECTION, "1"),
        "select_letter": build_choice_prompt(
            {"scene": "two cups"}, "How many cups?", ["one", "two"]
        ),
    }
    for task in ("ground", "question", "choice"):
        prompts[f"queries.{task}"] = build_query_prompt(
            "Photographs of kitchens.", task, 5, ["the red cup"]
        )
    query, known = "Who made this vase?", ["it is blue", "it has a mark"]
    for style in ("compact", "chat"):
        for task in QUERIES:
            prompts[f"explore.{task}.{style}"] = explored(task, style, False)
            prompts[f"explore.{task}.{style}.last"] = explored(task, style, True)
            prompts[f"explore.{task}.whole"] = explored(task, "chat", False, Listing(whole=True))
        prompts[f"seek_split.{style}"] = split_prompt(query, style, "split")
        prompts[f"seek_plan.{style}"] = plan_prompt(query, known, ACTIONS, DECISIONS, style)
        prompts[f"seek_judge.{style}"] = judge_prompt(
            query,
            known,
            Decision("text_search", "blue vase"),
            ["Blue vases: made by Ann.", "Green vases: made by Bob."],
            style,
            "knowledge",
        )
        prompts[f"seek_sequence.{style}"] = short_answer_prompt(
            query, known, style, "sequence", "sequence"
        )
        prompts[f"seek_memory.{style}"] = short_answer_prompt(query, (), style, "memory")
        prompts[f"seek_answer.{style}"] = short_answer_prompt(query, known, style)
        prompts[f"select.{style}"] = build_select_prompt(
            {"scene": "two cups"}, "How many cups?", ["one", "two"], style
        )
    return prompts


PROMPTS = all_prompts()


@pytest.mark.parametrize("name", PROMPTS)
def test_golden(name: str) -> None:
    text = PROMPTS[name] + "\n"
    golden = GOLDEN / f"{name}.txt"
    if UPDATE:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(PROMPTS)
