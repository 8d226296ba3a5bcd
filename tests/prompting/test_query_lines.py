"""Queries out of untidy replies; and the prompt that asks for them."""

from __future__ import annotations

import pytest

from viper.prompting.query_lines import (
    DESCRIBED_TASKS,
    build_query_prompt,
    fault,
    read_line,
    read_queries,
    without_repeats,
)
from viper.schema import Query

TWO = ["the red cube on the left", "the ball behind the cone"]


@pytest.mark.parametrize(
    "reply",
    [
        "the red cube on the left\nthe ball behind the cone",
        "\n\n  the red cube on the left  \n\n\tthe ball behind the cone\n\n",
        "1. the red cube on the left\n2. the ball behind the cone",
        "1) the red cube on the left\r\n2) the ball behind the cone\r\n",
        "(1) the red cube on the left\n(2) the ball behind the cone",
        "**1.** the red cube on the left\n**2.** **the ball behind the cone**",
        "Query 1: the red cube on the left\nQ2. the ball behind the cone",
        "- the red cube on the left\n* the ball behind the cone",
        "• “the red cube on the left”\n– 'the ball behind the cone'",
        '1. "the red cube on the left",\n2. "the ball behind the cone",',
        '[\n  "the red cube on the left",\n  "the ball behind the cone"\n]',
        '{"query": "the red cube on the left"}\n{"query": "the ball behind the cone"}',
        "Here are two queries:\n\nthe red cube on the left\nthe ball behind the cone",
        "Sure, here you go:\n1. the red cube on the left\n2. the ball behind the cone\nMore?",
        "Of course\n```\nthe red cube on the left\nthe ball behind the cone\n```\nI varied them.",
        "```text\n1. the red cube on the left\n2. the ball behind the cone",
        "<think>the sheet says cubes\nthe cube</think>the red cube on the left\n"
        "the ball behind the cone",
        "## Queries\nthe red cube on the left\nthe ball behind the cone",
        "the red cube on the left\nThe red cube, on the left.\nthe ball behind the cone\n---\n...",
        "the red cube on the left\n" + "very " * 80 + "red cube\nthe ball behind the cone",
        "the red\u200b cube on the\x07 left\nthe ball\u202e behind the cone",
    ],
)
def test_untidy_replies(reply: str) -> None:
    assert [query.text for query in read_queries(reply, "ground")] == TWO


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "```\n```",
        "I cannot do that!",
        "12\n3.5\n??",
        "def execute_command(image):\n    # find all: find\n    return find(image, 'cube')[0]",
        "```python\nclass Query:\n    pass\n```\nthe red cube",
        "return image\nfound = cubes\nimport os\nfind(image)\n# a remark",
        "what stops? | the ball | the cube",
        '{"query": ["a list"]}\n{"query": "cut',
    ],
)
def test_replies_without_a_query(reply: str) -> None:
    assert read_queries(reply, "ground") == []


def test_numbers_that_belong_to_a_query_stay() -> None:
    reply = "2 cubes that touch\n1.5 metres from the door, the chair\nthe lamp\n3. the third"
    assert [query.text for query in read_queries(reply, "ground")] == [
        "2 cubes that touch", "1.5 metres from the door, the chair", "the lamp", "the third",
    ]  # fmt: skip


def test_options_stand_behind_bars() -> None:
    reply = (
        '1. what stops? | A) the ball | b. "the cube" |the ring\n'
        "2. what starts? | the ball\n"
        "3. what appears? | the ball | The ball. | the ring\n"
        "4. what falls?\n"
        '5. {"query": "what moves?", "options": ["the ball", "it | they"]}'
    )
    assert read_queries(reply, "choice") == [
        Query("what stops?", "choice", options=("the ball", "the cube", "the ring")),
        Query("what moves?", "choice", options=("the ball", "it | they")),
    ]


@pytest.mark.parametrize(
    ("line", "task", "said"),
    [
        ("12", "ground", "no words"),
        ("a" * 301, "question", "301 characters; at most 300"),
        ("what? | a | b", "question", "options, which a question has none of"),
        ("what is it? | a", "choice", "1 options; 2 to 10"),
        ("what is it? | a | ", "choice", "an option that is empty"),
        ("what is it? | a cat | the cat", "choice", "two options that are the same"),
    ],
)
def test_faults_are_named(line: str, task: str, said: str) -> None:
    assert said in (fault(read_line(line, task)) or "")


def test_the_same_words_are_one_query() -> None:
    texts = ["The cube?", "a cube", "two cubes", "2 cubes!"]
    assert [q.text for q in without_repeats(Query(text) for text in texts)] == [
        "The cube?",
        "two cubes",
    ]


@pytest.mark.parametrize("task", DESCRIBED_TASKS)
def test_the_prompt_holds_what_it_was_given(task: str) -> None:
    prompt = build_query_prompt("Pictures of $5 notes.\n", task, 7, media="videos")
    assert "Pictures of $5 notes.\n" in prompt and "a set of videos" in prompt
    assert prompt.endswith("7 queries, one a line:\n") and "must not come again" not in prompt
    assert ("vertical bar" in prompt) is (task == "choice")
    again = build_query_prompt("sheet", task, 7, ["the\nred cube", "the lamp"])
    assert "must not come again\n\nthe red cube\nthe lamp\n\n7 queries" in again


@pytest.mark.parametrize("task", DESCRIBED_TASKS)
def test_the_form_of_the_prompt_can_be_read(task: str) -> None:
    example = build_query_prompt("sheet", task, 1).split("not of the content: ")[1].split("\n")[0]
    (query,) = read_queries(example, task)
    assert bool(query.options) is (task == "choice")
