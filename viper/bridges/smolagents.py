"""The sandbox as the executor of smolagents' ``CodeAgent``.

``CodeAgent(tools, model, executor=SandboxExecutor())``: the agent's code runs in a locked process,
its tools in this one.

Source: smolagents 1.26, ``PythonExecutor``.
Differs: code imports what the sandbox offers, whatever the agent authorizes; objects reach code as
plain values.
"""

from __future__ import annotations

from typing import Any

from smolagents.local_python_executor import (
    CodeOutput,
    InterpreterError,
    PythonExecutor,
    fix_final_answer_code,
)

from viper.bridges.code_session import CodeSession
from viper.sandbox import Limits, describe_failure
from viper.sandbox.sandbox import Mode

FINAL = "final_answer"


class SandboxExecutor(PythonExecutor):
    """Runs the code of an agent in viper's sandbox.

    Attributes:
        state: ``_print_outputs`` holds the output of the last code, which agents read on errors.
    """

    def __init__(self, limits: Limits | None = None, mode: Mode = "strict") -> None:
        self._code = CodeSession(FINAL, limits, mode)
        self._variables: dict[str, Any] = {}
        self.state: dict[str, Any] = {"_print_outputs": ""}

    def send_tools(self, tools: dict[str, Any]) -> None:
        """Make the agent's tools callable."""
        self._final = tools.get(FINAL)
        self._code.tools = {name: tool for name, tool in tools.items() if name != FINAL}

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Set variables of the code before its next run."""
        self._variables.update(variables)

    def __call__(self, code_action: str) -> CodeOutput:
        """Run the code of one step.

        Raises:
            InterpreterError: the code failed.
        """
        variables, self._variables = self._variables, {}
        outcome = self._code.run(fix_final_answer_code(code_action), variables)
        self.state["_print_outputs"] = outcome.stdout
        if self._code.answer is not None:
            args, kwargs = self._code.answer
            value = self._final(*args, **kwargs) if self._final else (args or (None,))[0]
            return CodeOutput(value, outcome.stdout, is_final_answer=True)
        if outcome.failure is not None:
            raise InterpreterError(describe_failure(outcome.failure))
        return CodeOutput(outcome.value, outcome.stdout, is_final_answer=False)

    def cleanup(self) -> None:
        """End the process of the code."""
        self._code.close()
