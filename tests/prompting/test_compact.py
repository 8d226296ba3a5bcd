"""The compact format, letter by letter: the embedded writer was trained on it."""

from __future__ import annotations

import pytest

from viper.api import api_set
from viper.prompting.compact import (
    END_OF_PROGRAM,
    compact_document,
    compact_example,
    compact_header,
    compact_query,
    compact_request,
    compact_selection,
)
from viper.schema import DEFAULT_API, Example

FIND = [entry for entry in api_set(DEFAULT_API).entries("ground") if entry.name == "find"]
SELECT = [
    entry for entry in api_set(DEFAULT_API).entries("choice") if entry.name == "select_answer"
]


def example(query: str, program: str, options: tuple[str, ...] = ()) -> Example:
    return Example(
        query, program, "ground", "abstract", 1.0, "s0", 0, "scripted", "0" * 12, options=options
    )


def test_without_examples() -> None:
    assert compact_document(FIND, "ground", (), "the cup") == (
        "# find all objects of a name: find(object_name)\n# task: ground\n# query: the cup\n"
    )
    assert compact_document((), "ground", (), "the cup") == "# task: ground\n# query: the cup\n"


def test_with_examples_and_options() -> None:
    shown = [example("who?", "def execute_command(video):\n    return 1\n", ("me", "you"))]
    assert compact_document(SELECT, "choice", shown, "what?", ["a b", "c"]) == (
        "# select the answer among options: select_answer(info, question, possible_answers)\n"
        "# task: choice\n"
        "# query: who?\n# options: me; you\ndef execute_command(video):\n    return 1\n\n"
        "# task: choice\n# query: what?\n# options: a b; c\n"
    )


def test_it_is_the_sum_of_its_parts() -> None:
    shown = [example("a", "x = 1"), example("b", "y = 2")]
    assert compact_document(FIND, "ground", shown, "c") == (
        compact_header(FIND)
        + compact_example("ground", "a", "x = 1")
        + compact_example("ground", "b", "y = 2")
        + compact_request("ground", "c")
    )


def test_nothing_in_a_query_or_program_breaks_the_format() -> None:
    assert compact_query("a\n\n# task:  b\t") == "# query: a # task: b\n"
    text = compact_example("tag", "a", "\ndef f():  \n\n    return 1\n\n")
    assert text == "# task: tag\n# query: a\ndef f():\n    return 1" + END_OF_PROGRAM


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("Is there a cup? Who knows. Why: It stops", "is there a cup? who knows. why: it stops"),
        ("WHERE IS THE CUP?", "where is the cup?"),
        ("A cup beside the TV of Ann", "a cup beside the TV of Ann"),
        ("TV or radio", "TV or radio"),
    ],
)
def test_sentences_begin_in_lower_case(typed: str, read: str) -> None:
    assert compact_request("question", typed) == f"# task: question\n# query: {read}\n"
    assert f"# question: {read}\n" in compact_selection("it stops", typed, ["a"])


def test_selection() -> None:
    assert compact_selection("it\nstops", "what?", ["a", "b c"]) == (
        "# info: it stops\n# question: what?\n# options: a; b c\n# answer:"
    )
