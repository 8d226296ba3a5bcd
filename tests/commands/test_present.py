"""A run as a person reads it."""

from __future__ import annotations

from tests.tuning.agent.turns import DONE, DOUBT, code
from viper.commands.present import turn_lines


def test_a_turn_line_by_line_without_what_a_terminal_would_obey() -> None:
    several = code("for one in patches:\n    print(one)", result="a\x1b[2J\nb")
    lines = list(turn_lines(several))
    assert lines[0] == "1 code"
    assert [line.strip() for line in lines[1:]] == [
        "for one in patches:",
        "print(one)",
        "> a\\x1b[2J",
        "> b",
    ]
    assert len(lines[2]) - len(lines[2].lstrip()) > len(lines[1]) - len(lines[1].lstrip())
    assert list(turn_lines(DONE)) == ["1 done"]
    assert next(turn_lines(DOUBT)) == "1 thought, by a checker"
