"""Prompts for line programs, and such programs taken out of what models write."""

from __future__ import annotations

import pytest

from tests.prompting.textual import textual
from viper.api import api_set
from viper.prompting import builder as builder_module
from viper.prompting.extract import extract_code
from viper.schema import DEFAULT_API, Example, Query

build_prompt = textual(builder_module.build_prompt)


PROGRAM = """BOX0=LOC(image=IMAGE,object='lamp')
ANSWER0=COUNT(box=BOX0)
ANSWER1=EVAL(expr="'yes' if {ANSWER0} > 0 else 'no'")
FINAL_RESULT=RESULT(var=ANSWER1)"""


def prompt(task: str, style: str, media: str = "image", api: str = "visprog") -> str:
    entries = api_set(api).entries(task)
    shown = Example("Is it on?", PROGRAM, task, api, 1.0, "s0", 0, "x", "0" * 12)
    query = Query("the words of the query", task=task, media=media)
    return build_prompt(query, entries, [shown], style=style, lines=api_set(api).lines)


@pytest.mark.parametrize("style", ["full", "chat"])
@pytest.mark.parametrize("task", ["ground", "question", "statement", "edit", "tag"])
def test_a_prompt_for_lines_knows_no_entry_point(task: str, style: str) -> None:
    text = prompt(task, style)
    assert "execute_command" not in text and "$" not in text
    assert "FINAL_RESULT=RESULT(var=NAME)" in text and "`IMAGE`" in text
    assert PROGRAM in text and "the words of the query" in text
    assert "class ImagePatch" not in text and "def RESULT(var: Any)" in text
    assert text.index("def RESULT") < text.index("Rules") < text.index("the words of the query")


def test_the_pictures_are_named_after_their_number() -> None:
    one, several = prompt("statement", "chat"), prompt("statement", "chat", "images")
    assert "`LEFT`" not in one.split("## Rules")[1]
    assert "`IMAGE1`, `IMAGE2`" in several and "`LEFT`" in several.split("## Rules")[1]
    assert "about several images" in several


def test_functions_about_several_pictures_get_their_list() -> None:
    text = prompt("statement", "chat", "images", "abstract")
    assert "`execute_command(image_list)`" in text and "of two, the first is the left one" in text
    assert "execute_command(image)" not in text
    assert "image_list" not in prompt("statement", "chat", "image", "abstract")


def test_a_compact_prompt_lists_modules() -> None:
    text = prompt("question", "compact")
    assert "# find objects of a name: LOC(image, object)\n" in text
    assert "# count boxes or objects: COUNT(box)\n" in text


def test_which_sets_are_written_in_lines() -> None:
    assert api_set("visprog").lines
    assert not api_set(DEFAULT_API).lines and not api_set("abstract+visprog").lines


@pytest.mark.parametrize(
    "text",
    [
        PROGRAM,
        f"Here you go:\n\n```python\n{PROGRAM}\n```\nThis counts the lamps.",
        "\n".join(f"Step{i}: {line}" for i, line in enumerate(PROGRAM.splitlines(), 1)),
        "\n".join(f"**Step {i}:** {line}  " for i, line in enumerate(PROGRAM.splitlines(), 1)),
        "\n".join(f"{i}. `{line}`" for i, line in enumerate(PROGRAM.splitlines(), 1)),
        f"Program:\n{PROGRAM}\n\nQuestion: What else?\nBOX0=LOC(image=IMAGE,object='cat')\n",
        f"# the lamps\n{PROGRAM.replace(chr(10), chr(10) + '# then' + chr(10))}",
        f"Program: {PROGRAM}\nprint(FINAL_RESULT)",
        f"First I find the lamp.\n{PROGRAM.replace(chr(10), chr(10) * 2)}",
    ],
)
def test_lines_are_found(text: str) -> None:
    assert extract_code(text) == PROGRAM


def test_a_program_that_never_ends_stops_at_the_next_text() -> None:
    text = "BOX0=LOC(image=IMAGE,object='cat')\nANSWER0=COUNT(box=BOX0)\n\nQuestion: Why?\nA=B(c=1)"
    assert extract_code(text) == "BOX0=LOC(image=IMAGE,object='cat')\nANSWER0=COUNT(box=BOX0)"


def test_functions_and_scripts_are_left_alone() -> None:
    function = (
        "def execute_command(image):\n    BOX0 = LOC(image=image, object='cat')\n    return BOX0"
    )
    assert extract_code(f"```python\n{function}\n```") == function
    script = "patch = ImagePatch(image)\nanswer = patch.exists('cat')"
    assert extract_code(script) == script
    broken = "BOX0=LOC(image=IMAGE,object='cat's)"
    assert extract_code(f"```\n{broken}\n```") == broken
