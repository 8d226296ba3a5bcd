"""Prompts list the names that exist, in a system message that is the same for every query."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from viper.errors import ViperError
from viper.models.llm.scripted import ScriptedLLM
from viper.profiles.files import shipped_profiles
from viper.profiles.wiring import load_profile
from viper.reasoner import Reasoner
from viper.strategies.base import Components
from viper.strategies.examples import NoExamples

PICTURE, CLIP = np.zeros((60, 80, 3), np.uint8), np.zeros((9, 60, 80, 3), np.uint8)
# Media, query and options of a run by kind.
QUERIES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "question": (PICTURE, "How many cups are there?", {"task": "question"}),
    "ground": (PICTURE, "the red cup", {"task": "ground"}),
    "pictures": ([PICTURE, PICTURE], "Which one shows more cups?", {"task": "question"}),
    "statement": ([PICTURE, PICTURE], "Both show a cup.", {"task": "statement"}),
    "choice": (CLIP, "What stops first?", {"options": ("the cup", "the ball")}),
    "open": (CLIP, "What stops first?", {}),
    "edit": (PICTURE, "Blur everything but the cup.", {"task": "edit"}),
    "tag": (PICTURE, "Tag all the cups.", {"task": "tag"}),
}
# Most tokens of a prompt, as characters / 4.
MOST = {"program": 4_200, "explore": 4_137, "look": 7_058}  # 12,000 a query in 2.9 and 1.7 requests


def with_writer(name: str, **changes: Any) -> Components:
    """Return the components of a profile with a chat writer that sees, the only language model."""
    parts = load_profile(name).components()
    settings = parts.settings.changed(**{"prompt_style": "chat", "examples": 8, **changes})
    llm = {"llm": ScriptedLLM(["x"])}
    return replace(parts, models=llm, settings=settings, sees=frozenset(llm))


@pytest.fixture(scope="module")
def embedded() -> Iterator[Reasoner]:
    with Reasoner(with_writer("embedded"), preload=False) as made:
        yield made


@pytest.fixture(scope="module")
def without_depth() -> Iterator[Reasoner]:
    facts = "- `find` takes a noun.\n- `compute_depth` orders things.\n"
    with Reasoner(replace(with_writer("endpoint"), facts=facts), preload=False) as made:
        yield made


def prompt(reasoner: Reasoner, kind: str, strategy: str = "program") -> tuple[str, str]:
    """Return the system message and the user's message."""
    media, query, options = QUERIES[kind]
    system, user = reasoner.prompt(media, query, strategy=strategy, **options).split("\n[user]\n")
    return system, user


@pytest.mark.parametrize("strategy", MOST)
def test_one_system_message_serves_every_query(embedded: Reasoner, strategy: str) -> None:
    prompts = [prompt(embedded, kind, strategy) for kind in QUERIES]
    assert len({system for system, _ in prompts}) == 1
    assert len({user for _, user in prompts}) == len(QUERIES)


@pytest.mark.parametrize("strategy", MOST)
@pytest.mark.parametrize("kind", ["question", "ground", "pictures", "edit"])
def test_prompts_about_pictures_are_short(embedded: Reasoner, strategy: str, kind: str) -> None:
    assert sum(map(len, prompt(embedded, kind, strategy))) / 4 <= MOST[strategy]


@pytest.mark.parametrize("strategy", ["program", "plan", "explore", "look"])
@pytest.mark.parametrize("kind", QUERIES)
def test_no_name_without_a_model_is_mentioned(
    without_depth: Reasoner, strategy: str, kind: str
) -> None:
    text = "".join(prompt(without_depth, kind, strategy))
    for name in ("depth", "sort_patches_front_to_back", "is_on", "is_next_to", "REPLACE"):
        assert not re.search(rf"\b(compute_)?{name}\b(?!s differ)", text), name


def test_facts_about_names_that_exist_stay(without_depth: Reasoner, embedded: Reasoner) -> None:
    assert "`find` takes a noun." in prompt(without_depth, "ground")[0]
    assert "the man behind the red car" not in prompt(without_depth, "ground")[1]
    assert "the second chair from the left" in prompt(without_depth, "ground")[1]
    with_depth = Reasoner(replace(embedded.components, examples=NoExamples()), preload=False)
    assert "the man behind the red car" in prompt(with_depth, "ground")[1]


@pytest.mark.parametrize("strategy", ["program", "explore", "look"])
def test_edits_list_functions_that_edit(embedded: Reasoner, strategy: str) -> None:
    text = "".join(prompt(embedded, "edit", strategy))
    assert "def BGBLUR(" in text and "def grayscale(" in text
    assert "def BGBLUR(" not in "".join(prompt(embedded, "question", strategy))


@pytest.mark.parametrize("kind", ["choice", "open"])
@pytest.mark.parametrize("strategy", ["program", "explore"])
def test_videos_list_both_classes_once(embedded: Reasoner, strategy: str, kind: str) -> None:
    system, user = prompt(embedded, kind, strategy)
    assert "class ImagePatch:" in system and "class ImagePatch:" not in user
    assert "class VideoSegment:" in user and "class VideoSegment:" not in system
    assert "def bool_to_yesno(" in system


def test_queries_about_pictures_see_no_function_about_videos(embedded: Reasoner) -> None:
    for strategy in ("program", "explore", "look"):
        assert "VideoSegment" not in "".join(prompt(embedded, "question", strategy))


@pytest.mark.parametrize("kind", ["pictures", "statement"])
def test_several_pictures_come_with_their_example(embedded: Reasoner, kind: str) -> None:
    text = "".join(prompt(embedded, kind))
    assert text.count("def execute_command(image_list):") == 2
    assert "def execute_command(image):" not in text


@pytest.mark.parametrize("strategy", ["explore", "look"])
@pytest.mark.parametrize("kind", QUERIES)
def test_agents_are_shown_no_function(embedded: Reasoner, strategy: str, kind: str) -> None:
    assert "execute_command" not in "".join(prompt(embedded, kind, strategy))


@pytest.mark.parametrize("kind", ["question", "ground", "choice"])
def test_solved_queries_take_no_element_of_an_empty_list(embedded: Reasoner, kind: str) -> None:
    solved = prompt(embedded, kind)[1].split("## Solved queries")[1].split("## What")[0]
    programs = re.findall(r"```python\n(.*?)```", solved, re.DOTALL)
    assert len(programs) == 8
    for program in programs:
        ast.parse(program)
        assert not re.search(r"\b(patches|anchors|others)\[-?\d+\](?!:)", program), program


def test_a_model_that_sees_is_told_what_for(embedded: Reasoner) -> None:
    blind = Reasoner(replace(embedded.components, sees=frozenset()), preload=False)
    for strategy in ("program", "plan", "explore"):
        seen = prompt(embedded, "question", strategy)[1]
        assert "must come from calls" in seen and "count y from the lower edge" in seen
        assert "must come from calls" not in prompt(blind, "question", strategy)[1]
        assert "no pixels" not in "".join(prompt(embedded, "question", strategy))
        assert "any pixels" not in "".join(prompt(embedded, "question", strategy))
    assert "at the top has the largest y" in prompt(embedded, "question", "look")[0]


@pytest.mark.parametrize("strategy", ["program", "explore"])
def test_the_prompt_that_is_shown_is_the_one_that_is_sent(strategy: str) -> None:
    writer = ScriptedLLM(["The answer is 2."] * 9, sees_pictures=True)
    parts = with_writer("embedded", trials=1, self_tune=False)
    with Reasoner(replace(parts, models={"llm": writer}), preload=False) as reasoner:
        media, query, options = QUERIES["question"]
        shown = reasoner.prompt(media, query, strategy=strategy, **options)
        reasoner.run(media, query, strategy=strategy, **options)
    sent = writer.calls[0].prompt
    assert re.sub("Caption: .*", "", sent) == re.sub("Caption: .*", "", shown)


def test_line_programs_are_asked_for_by_their_modules() -> None:
    with Reasoner(with_writer("endpoint", api="visprog"), preload=False) as reasoner:
        text = "".join(prompt(reasoner, "edit"))
    assert "def COLORPOP(" in text and "def REPLACE(" not in text and "see none of them" not in text


def test_a_budget_for_the_api_still_selects_names() -> None:
    with Reasoner(with_writer("embedded", api_budget=400), preload=False) as reasoner:
        system, _ = prompt(reasoner, "ground")
    assert "def find(" in system
    assert "def process_guesses(" not in system


def test_profiles_of_papers_print_the_whole_api() -> None:
    papers = [name for name in shipped_profiles() if name.startswith("paper-")]
    assert len(papers) == 4
    for name in papers:
        assert load_profile(name).document.run.api_text == "whole"


def test_the_whole_api_has_an_example_of_each_name() -> None:
    with Reasoner(with_writer("embedded", api_text="whole"), preload=False) as reasoner:
        system, user = prompt(reasoner, "question")
        assert system.count("Example:\n") == 28 and "Example:" not in user
        assert "Example:\n" in prompt(reasoner, "question", "explore")[0]
    with pytest.raises(ViperError, match="api text"):
        with_writer("embedded", api_text="long")
