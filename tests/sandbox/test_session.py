"""Several turns of code in one episode."""

from __future__ import annotations

import pytest

from viper.errors import UsageError
from viper.sandbox import Limits, Sandbox
from viper.testing.scripted_tools import ScriptedTools


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
