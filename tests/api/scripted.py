"""A client that answers tool calls from a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viper.api import ImagePatch

Maker = Callable[..., ImagePatch]
"""``patch(left, lower, right, upper)``."""


class ScriptedClient:
    """Answers tool calls from a script and records them; fails when the script has no answer."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Any]] = {}
        self.calls: list[tuple[Any, ...]] = []

    def will(self, name: str, *results: Any) -> None:
        self.answers.setdefault(name, []).extend(results)

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((name, *args, *kwargs.values()))
        assert self.answers.get(name), f"no answer scripted for {name}{args}"
        answer = self.answers[name].pop(0)
        return answer(*args) if callable(answer) else answer
