"""viper's sandbox as the code interpreter of dspy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.bridges.needed import need
from tests.bridges.tasks import TASKS, rows, value_of

dspy = need("dspy", "dspy")

from dspy.primitives.code_interpreter import (  # noqa: E402
    CodeExecutionError,
    CodeInterpreter,
    CodeInterpreterError,
    FinalOutput,
)
from dspy.utils import DummyLM  # noqa: E402

from viper.bridges.dspy import SandboxInterpreter  # noqa: E402


@pytest.fixture
def interpreter() -> Iterator[SandboxInterpreter]:
    made = SandboxInterpreter({"rows": rows})
    yield made
    made.shutdown()


def test_it_is_an_interpreter_by_dspy_s_protocol(interpreter: SandboxInterpreter) -> None:
    assert isinstance(interpreter, CodeInterpreter)


@pytest.mark.parametrize("program", TASKS)
def test_rlm_solves_ten_tasks(program: str) -> None:
    replies = [{"reasoning": "Compute.", "code": f"{program}\nSUBMIT(answer=answer)"}]
    with dspy.context(lm=DummyLM(replies)):
        module = dspy.RLM(
            "question -> answer: Any", tools=[rows], interpreter_factory=SandboxInterpreter
        )
        assert module(question="Solve it.").answer == value_of(program)


def test_variables_stay_and_output_is_returned(interpreter: SandboxInterpreter) -> None:
    assert interpreter.execute("n = len(rows(table='cups'))\nprint(n)") == "3\n"
    assert interpreter.execute("n + given", {"given": 4}) == "7"
    assert interpreter.execute("n = 1") in (None, "1")


def test_submit_by_position_and_by_name(interpreter: SandboxInterpreter) -> None:
    interpreter.output_fields = [{"name": "color"}, {"name": "count"}]
    assert interpreter.execute("SUBMIT('red', 2)") == FinalOutput({"color": "red", "count": 2})
    both = {"count": 1, "color": "blue"}
    assert interpreter.execute("SUBMIT(count=1, color='blue')") == FinalOutput(both)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("1 / 0", CodeExecutionError),
        ("import os", CodeExecutionError),
        ("rows('plates')", CodeExecutionError),
        ("def f(:", SyntaxError),
    ],
)
def test_failures_are_those_of_the_protocol(
    code: str, error: type[Exception], interpreter: SandboxInterpreter
) -> None:
    with pytest.raises(error):
        interpreter.execute(code)
    assert interpreter.execute("print(1)") == "1\n"


def test_after_shutdown_nothing_runs(interpreter: SandboxInterpreter) -> None:
    interpreter.shutdown()
    with pytest.raises(CodeInterpreterError, match="shut down"):
        interpreter.execute("1")


def test_objects_of_the_host_reach_code_as_plain_values(interpreter: SandboxInterpreter) -> None:
    class Thing:
        def __str__(self) -> str:
            return "a thing"

    values: dict[str, Any] = {"thing": Thing(), "pair": (1, [2, {"three": 3}])}
    assert interpreter.execute("print(thing, pair[1][1]['three'])", values) == "a thing 3\n"
