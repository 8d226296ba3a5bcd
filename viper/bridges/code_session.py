"""The sandbox as an interpreter for agent frameworks: turns of code that call host functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.sandbox import Limits, Outcome, Prelude, Sandbox, Session
from viper.sandbox.sandbox import Mode

# Types that cross to a process as they are.
_PLAIN = bool | int | float | str | bytes | np.ndarray | None
_FINISHED = "the answer is given; nothing more runs"


class CodeSession:
    """Turns of code that share their variables, in one locked process.

    The process starts with the first turn. A turn that ends by force (time, memory, too many calls)
    loses its variables; the next turn starts a new process.

    Args:
        final: name of the function by which code gives its answer and ends.
        limits: budgets of each turn.
        mode: see :class:`viper.sandbox.Sandbox`.
        by_keyword: pass all arguments to tools by the names in their signatures.

    Attributes:
        tools: functions of the host that code may call, by name. They get plain values from
            untrusted code.
        answer: the arguments of the first call of ``final`` in the last turn, as (args, kwargs);
            None without a call.
    """

    def __init__(
        self,
        final: str,
        limits: Limits | None = None,
        mode: Mode = "strict",
        by_keyword: bool = False,
    ) -> None:
        self.tools: dict[str, Callable[..., Any]] = {}
        self.answer: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._final, self._limits, self._mode = final, limits, mode
        self._by_keyword = by_keyword
        self._names: frozenset[str] = frozenset()
        self._sandbox: Sandbox | None = None
        self._session: Session | None = None

    def run(self, code: str, variables: Mapping[str, Any] | None = None) -> Outcome:
        """Run one turn. Its value is that of the last expression.

        Args:
            variables: values that code finds under these names. Objects are passed as what they
                hold: numbers, texts, lists, dicts, arrays; a PIL picture as uint8 [H, W, 3].
        """
        names = frozenset({*self.tools, self._final})
        if names != self._names or self._sandbox is None:
            self.close()
            self._names = names
            prelude = Prelude.functions(*sorted(names))
            self._sandbox = Sandbox(self, self._limits, prelude, self._mode)
        if self._session is None or self._session.ended:
            self._session = self._sandbox.session()
        self.answer = None
        values = {name: plain(value) for name, value in (variables or {}).items()}
        return self._session.run(code, args=values, shows=True)

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        """Answer a call of the code by a function of the host.

        Raises:
            ToolError: the function failed, or the answer was given before.
        """
        if self.answer is None and name == self._final:
            self.answer = args, kwargs
        if self.answer is not None:
            raise ToolError(_FINISHED)
        if name not in self.tools:
            raise ToolError(f"there is no tool {name!r}")
        tool = self.tools[name]
        try:
            if self._by_keyword and args:
                args, kwargs = (), signature(tool).bind(*args, **kwargs).arguments
            return plain(tool(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whatever a tool of the host raises
            raise ToolError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """End the process; a later turn starts a new one without variables."""
        if self._session is not None:
            self._session.close()
        if self._sandbox is not None:
            self._sandbox.close()
        self._sandbox = self._session = None


def plain(value: Any) -> Any:
    """Return a value as the sandbox takes it; other objects become their text."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(plain(item) for item in value)
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(mode="json"))
    if hasattr(value, "convert"):  # a PIL picture
        return np.asarray(value.convert("RGB"))
    return str(value)
