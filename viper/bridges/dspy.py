"""The sandbox as the code interpreter of dspy (``RLM``, ``CodeAct``, ``ProgramOfThought``).

``dspy.RLM(signature, interpreter_factory=SandboxInterpreter)`` needs no Deno.

Source: dspy 3.4, ``CodeInterpreter``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput

from viper.bridges.code_session import CodeSession
from viper.errors import SandboxHostError, SandboxUnavailableError
from viper.sandbox import Limits, describe_failure
from viper.sandbox.sandbox import Mode

FINAL = "SUBMIT"


class SandboxInterpreter:
    """Runs code for dspy in viper's sandbox.

    Args:
        tools: functions of the host that code may call, by name.
        output_fields: the fields that ``SUBMIT`` takes by position, each with its ``name``.
    """

    execution_instructions = (
        "Code runs as Python in a sandbox without files and network. Variables and functions stay "
        "for this session. Host tools and SUBMIT are available as global functions."
    )

    def __init__(
        self,
        tools: dict[str, Callable[..., Any]] | None = None,
        output_fields: list[dict[str, Any]] | None = None,
        limits: Limits | None = None,
        mode: Mode = "strict",
    ) -> None:
        self._code = CodeSession(FINAL, limits, mode, by_keyword=True)
        self._code.tools = dict(tools or {})
        self.output_fields = output_fields
        self._ended = False

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """Return the functions that code may call, by name."""
        return self._code.tools

    def start(self) -> None:
        """Do nothing: the process starts with the first code."""

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Run code and return the submitted output, else what it printed, else its last value.

        Raises:
            SyntaxError: the code is no Python.
            CodeExecutionError: the code, or a tool that it called, failed.
            CodeInterpreterError: no process can be started, or the session was shut down.
        """
        if self._ended:
            raise CodeInterpreterError("this interpreter was shut down; create a new one")
        try:
            outcome = self._code.run(code, variables)
        except (SandboxHostError, SandboxUnavailableError) as error:
            raise CodeInterpreterError(str(error)) from error
        if self._code.answer is not None:
            args, kwargs = self._code.answer
            names = [field["name"] for field in self.output_fields or [{"name": "output"}]]
            return FinalOutput({**dict(zip(names, args, strict=False)), **kwargs})
        if outcome.failure is not None:
            message = describe_failure(outcome.failure)
            raise (SyntaxError if outcome.failure.kind == "syntax" else CodeExecutionError)(message)
        return outcome.stdout or (None if outcome.value is None else str(outcome.value))

    def shutdown(self) -> None:
        """End the session and its process."""
        self._ended = True
        self._code.close()
