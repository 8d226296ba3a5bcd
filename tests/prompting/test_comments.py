"""Whole-line comments go, everything else stays."""

from __future__ import annotations

import pytest

from viper.prompting.comments import without_comments
from viper.world.queries.annotate import strip_comments

PROGRAM = """def execute_command(image):
    # find all: find
    found = image.find('# cube')  # kept
    #x
    return found"""


def test_only_whole_lines_go() -> None:
    assert without_comments(PROGRAM) == (
        "def execute_command(image):\n    found = image.find('# cube')  # kept\n    return found"
    )
    assert without_comments(PROGRAM) == strip_comments(PROGRAM)


def test_lines_of_a_string_stay() -> None:
    program = 'x = """\n# text\n"""\n'
    assert without_comments(program) == program


@pytest.mark.parametrize("text", ["", "def (\n# x", "'''\n# x", "  a\n b\n# c"])
def test_what_is_no_program_stays(text: str) -> None:
    assert without_comments(text) in (text, strip_comments(text))
