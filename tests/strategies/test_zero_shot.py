"""What a prompt that is called zero-shot holds, and what counts as an example."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from viper.ace.mining import zero_shot
from viper.api.sets import PRINTED_EXAMPLES, api_names, api_set
from viper.errors import UsageError
from viper.models.llm.scripted import ScriptedLLM
from viper.profiles.wiring import load_profile
from viper.prompting.builder import careful_examples
from viper.reasoner import Reasoner
from viper.schema import DEFAULT_API, PROMPT_STYLES, Query
from viper.strategies.base import Components

PICTURE, CLIP = np.zeros((60, 80, 3), np.uint8), np.zeros((9, 60, 80, 3), np.uint8)
# Media and options of a run by kind of query.
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ground": (PICTURE, {"task": "ground"}),
    "question": (PICTURE, {"task": "question"}),
    "images": ([PICTURE, PICTURE], {"task": "question"}),
    "statement": ([PICTURE, PICTURE], {"task": "statement"}),
    "edit": (PICTURE, {"task": "edit"}),
    "tag": (PICTURE, {"task": "tag"}),
    "choice": (CLIP, {"options": ("one", "two")}),
    "open": (CLIP, {}),
}
APIS = sorted(api_names()) + [DEFAULT_API]
# The comment over each worked example of a docstring that the paper prints too.
PRINTED = {
    entry.example.partition("\n")[0]
    for api in ("abstract", "vipergpt")
    for task in ("question", "choice")
    for entry in api_set(api).entries(task)
    if entry.name in PRINTED_EXAMPLES
}


@cache
def writer() -> Components:
    """Return the components of a profile for chat models, whose writer is scripted."""
    return replace(
        load_profile("paper-programmers").components(), models={"llm": ScriptedLLM(["x"])}
    )


def prompt(kind: str, strategy: str = "program", **changes: Any) -> str:
    media, options = KINDS[kind]
    settings = writer().settings.changed(**changes)
    with Reasoner(replace(writer(), settings=settings), preload=False) as reasoner:
        return reasoner.prompt(media, "Where is the odd one?", strategy=strategy, **options)


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("strategy", ["program", "plan", "explore", "seek"])
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("style", PROMPT_STYLES)
def test_a_prompt_without_examples_solves_no_query_that_the_paper_does_not_solve(
    style: str, api: str, strategy: str, careful: bool
) -> None:
    for kind in KINDS:
        for text in ("short", "whole"):
            try:
                shown = prompt(
                    kind,
                    strategy,
                    prompt_style=style,
                    api=api,
                    api_text=text,
                    examples=0,
                    careful=careful,
                )
            except UsageError:  # lines about a video, a graph for one kind of media
                continue
            solved = re.findall(
                r"(#.*)\n(?: *# options.*\n)?[ >]*(?:def execute_command\(.*:|[A-Z]+\d = )", shown
            )
            if style == "full" and strategy == "program":  # the completion goes on here
                solved = [line for line in solved if "Where is the odd one?" not in line]
            assert {line.strip() for line in solved} <= PRINTED, (kind, text)
            assert shown.count("Example:\n") == len(solved), (kind, text)
            assert not re.search("Solved|did not work|Demonstration|by hand|## Examples", shown)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["short", "whole"])
def test_every_api_shows_the_same_queries_that_were_solved_by_hand(kind: str, text: str) -> None:
    shown = {
        api: re.findall("# query: (.+)", prompt(
            kind, prompt_style="chat", api=api, api_text=text, careful=True, examples=4
        ))
        for api in ("vipergpt", "abstract", DEFAULT_API)
    }  # fmt: skip
    assert len({tuple(queries) for queries in shown.values()}) == 1
    assert bool(shown["abstract"]) == (kind not in ("edit", "tag"))


def test_queries_solved_by_hand_count_as_examples_and_the_trace_names_them() -> None:
    settings = writer().settings.changed(prompt_style="chat", careful=True, examples=1)
    program = "```python\ndef execute_command(image):\n    return 1\n```"
    scripted = {"llm": ScriptedLLM([program, program])}
    with Reasoner(replace(writer(), models=scripted, settings=settings), preload=False) as reasoner:
        trace = reasoner.run(PICTURE, "How many?", task="question", trials=1).trace
        none = reasoner.run(PICTURE, "How many?", zero_shot().changed(task="question")).trace
    assert trace.examples_shown == ("question 1 by hand",)
    assert none.examples_shown == ()


def test_a_query_solved_by_hand_calls_listed_names_alone() -> None:
    query = Query("Where?", "ground")
    names = {entry.name for entry in api_set("vipergpt").entries("ground")}
    assert len(careful_examples(query, names)) == 2
    assert len(careful_examples(query, names - {"compute_depth"})) == 1
    assert careful_examples(query, ()) == []
