"""A tool client with scripted answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.errors import ScriptExhaustedError


@dataclass(frozen=True)
class ScriptedCall:
    """One call of a program."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    line: int | None


class ScriptedTools:
    """Answers calls from a script and records them; fails when the script is exhausted.

    Args:
        answers: either a list, used in order for any tool, or a mapping from
            tool name to the list of its answers. An answer that is an exception is
            raised; a callable is called with the arguments of the call. In place of a
            list, a mapping may hold one callable, which answers every call.

    Attributes:
        calls: the calls so far.

    Example:
        >>> tools = ScriptedTools({"add": [3]})
        >>> tools.call("add", (1, 2), {}, None)
        3
        >>> tools.calls[0].args
        (1, 2)
    """

    def __init__(
        self, answers: Sequence[Any] | Mapping[str, Sequence[Any] | Callable[..., Any]] = ()
    ) -> None:
        self.calls: list[ScriptedCall] = []
        self._lock = threading.Lock()
        self._always: dict[str, Callable[..., Any]] = {}
        self._by_name: dict[str, list[Any]] | None = None
        self._in_order: list[Any] = []
        if isinstance(answers, Mapping):
            self._by_name = {}
            for name, script in answers.items():
                if callable(script):
                    self._always[name] = script
                else:
                    self._by_name[name] = list(script)
        else:
            self._in_order = list(answers)

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        """Return the next answer of the script.

        Raises:
            ScriptExhaustedError: the script holds no more answers for this call.
        """
        with self._lock:
            self.calls.append(ScriptedCall(name, args, dict(kwargs), line))
            answer = self._always[name] if name in self._always else self._next(name)
        if isinstance(answer, BaseException):
            raise answer
        return answer(*args, **kwargs) if callable(answer) else answer

    def _next(self, name: str) -> Any:
        script = self._in_order if self._by_name is None else self._by_name.get(name, [])
        if not script:
            raise ScriptExhaustedError(
                f"call {len(self.calls)} asks for {name!r}, the script has no answer left for it"
            )
        return script.pop(0)
