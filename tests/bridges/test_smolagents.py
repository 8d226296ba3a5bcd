"""viper's sandbox as the executor of smolagents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.bridges.needed import need
from tests.bridges.tasks import TASKS, rows, value_of

need("smolagents", "smolagents")

from smolagents import CodeAgent, Tool  # noqa: E402
from smolagents.local_python_executor import InterpreterError, LocalPythonExecutor  # noqa: E402
from smolagents.models import ChatMessage, Model  # noqa: E402

from viper.bridges.smolagents import SandboxExecutor  # noqa: E402


class Rows(Tool):
    name = "rows"
    description = "Return the rows of a table."
    inputs = {"table": {"type": "string", "description": "Its name."}}
    output_type = "object"

    def forward(self, table: str) -> Any:
        return rows(table)


class Scripted(Model):
    """A model that writes these programs, one a step."""

    def __init__(self, programs: list[str]) -> None:
        super().__init__()
        self._programs = iter(programs)

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        return ChatMessage(role="assistant", content=f"<code>\n{next(self._programs)}\n</code>")


@pytest.fixture
def executor() -> Iterator[SandboxExecutor]:
    made = SandboxExecutor()
    made.send_tools({"rows": rows})
    yield made
    made.cleanup()


def agent(programs: list[str], executor: Any = None, **options: Any) -> CodeAgent:
    return CodeAgent([Rows()], Scripted(programs), executor=executor, verbosity_level=0, **options)


@pytest.mark.parametrize("program", TASKS)
def test_an_agent_solves_ten_tasks(program: str, executor: SandboxExecutor) -> None:
    answer = agent([f"{program}\nfinal_answer(answer)"], executor).run("Solve it.")
    assert answer == value_of(program)
    local = LocalPythonExecutor([])
    assert agent([f"{program}\nfinal_answer(answer)"], local).run("Solve it.") == answer


def test_variables_stay_from_step_to_step(executor: SandboxExecutor) -> None:
    steps = ["n = len(rows('cups'))\nprint(n)", "final_answer(n * 10)"]
    assert agent(steps, executor).run("Count.") == 30


def test_a_failure_is_seen_with_its_output_and_the_agent_goes_on(executor: SandboxExecutor) -> None:
    made = agent(["print('so far')\n1 / 0", "final_answer(2)"], executor)
    assert made.run("Divide.") == 2
    assert "division by zero" in str(made.memory.steps[1].error)
    assert "so far" in made.memory.steps[1].observations


def test_variables_of_the_agent_arrive(executor: SandboxExecutor) -> None:
    executor.send_variables({"numbers": [1, 2, 3], "name": "x"})
    assert executor("sum(numbers)").output == 6


@pytest.mark.parametrize(
    "code",
    ["import os", "open('/etc/passwd')", "().__class__.__mro__", "__import__('os').system('id')"],
)
def test_what_the_sandbox_refuses_is_refused(code: str, executor: SandboxExecutor) -> None:
    with pytest.raises(InterpreterError):
        executor(code)


def test_nothing_runs_after_the_answer(executor: SandboxExecutor) -> None:
    called: list[str] = []
    executor.send_tools({"rows": called.append})
    output = executor("final_answer(1)\nrows('late')")
    assert (output.output, output.is_final_answer, called) == (1, True, [])
    caught = "try:\n    final_answer(1)\nexcept Exception:\n    rows('late')\n    final_answer(2)"
    assert executor(caught).output == 1
    assert called == []
