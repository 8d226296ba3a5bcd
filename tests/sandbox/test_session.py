"""Several turns of code in one episode."""

from __future__ import annotations

import pytest

from viper.errors import UsageError
from viper.sandbox import Limits, Sandbox
from viper.testing.fakes import ScriptedTools


def test_turns_share_variables(sandbox: Sandbox) -> None:
    with sandbox.session() as session:
        assert session.run("x = 2\ndef double(v):\n    return v * 2").ok
        assert session.run("answer = double(x)").value == 4


def test_an_answer_counts_in_its_own_turn_only(sandbox: Sandbox) -> None:
    with sandbox.session() as session:
        assert session.run("answer = 1").value == 1
        assert session.run("x = answer + 1").value is None
        assert session.run("answer += 1").value == 2


def test_a_failed_turn_does_not_end_the_episode(sandbox: Sandbox) -> None:
    with sandbox.session() as session:
        session.run("x = 1")
        failure = session.run("y = 1\nx / 0").failure
        assert failure is not None and failure.line == 2 and failure.source_line == "x / 0"
        assert session.run("answer = x").value == 1


def test_lines_are_those_of_the_turn(sandbox: Sandbox) -> None:
    with sandbox.session() as session:
        session.run("\n\n\ndef f():\n    return [][0]")
        failure = session.run("f()").failure
    assert failure is not None and failure.function == "f"


def test_calls_are_counted_by_turn(sandbox: Sandbox) -> None:
    tools = ScriptedTools({"find": lambda name: name})
    with sandbox.session(tools=tools) as session:
        assert len(session.run("find('a')\nfind('b')").calls) == 2
        outcome = session.run("answer = find('c')")
    assert [call.index for call in outcome.calls] == [0]


def test_a_timeout_ends_the_episode() -> None:
    with Sandbox(limits=Limits(time_s=0.2)) as sandbox, sandbox.session() as session:
        failure = session.run("while True: pass").failure
        assert failure is not None and failure.kind == "timeout"
        with pytest.raises(UsageError, match="has ended"):
            session.run("answer = 1")


def test_episodes_share_nothing(sandbox: Sandbox) -> None:
    with sandbox.session() as one, sandbox.session() as two:
        one.run("x = 1")
        failure = two.run("answer = x").failure
    assert failure is not None and failure.exception == "NameError"


def test_arguments_of_a_turn_are_variables(sandbox: Sandbox) -> None:
    with sandbox.session() as session:
        session.run("pass", args={"image": 3})
        assert session.run("answer = image").value == 3


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("x = 2\nx + 1", 3),
        ("x = 2", 2),
        ("x = y = [1]", [1]),
        ("answer = 4\nanswer * 2", 8),
        ("x, y = 1, 2", None),
        ("for x in range(3):\n    x", None),
        ("def f():\n    return 1", None),
        ("# nothing", None),
        ("", None),
    ],
)
def test_a_turn_shows_its_last_value(sandbox: Sandbox, code: str, value: object) -> None:
    with sandbox.session() as session:
        session.run("'before'", shows=True)
        outcome = session.run(code, shows=True)
    assert outcome.ok and outcome.value == value


def test_what_was_shown_before_is_not_shown_again(sandbox: Sandbox) -> None:
    with sandbox.session() as session:
        assert session.run("1 + 1", shows=True).value == 2
        assert session.run("import math", shows=True).value is None


def test_a_failing_last_line_keeps_its_place(sandbox: Sandbox) -> None:
    with sandbox.session() as session:
        failure = session.run("x = 1\nx.missing", shows=True).failure
    assert failure is not None and (failure.line, failure.source_line) == (2, "x.missing")


def test_too_much_output_ends_its_turn_alone() -> None:
    with Sandbox(limits=Limits(output_kb=1)) as sandbox, sandbox.session() as session:
        failure = session.run("print('x' * 2000)").failure
        assert failure is not None and failure.kind == "output"
        outcome = session.run("print('y' * 900)\nanswer = 1")
        assert outcome.value == 1 and outcome.stdout == "y" * 900 + "\n"
