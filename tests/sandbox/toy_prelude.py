"""A prelude with one value type, for the tests of the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from viper.sandbox.wire import Ref


class Thing:
    """Something with a size, found by a tool."""

    def __init__(self, name: str, size: float, call: Callable[..., Any]) -> None:
        self.name, self.size, self._call = name, size, call
        self.secret = "not readable"

    def ask(self, question: str) -> Any:
        return self._call("ask", self, question)


READABLE: Mapping[type, frozenset[str]] = {Thing: frozenset({"name", "size", "ask"})}


def names(call: Callable[..., Any], config: Mapping[str, Any]) -> dict[str, object]:
    def find(name: str) -> Any:
        return call("find", name)

    def exists(name: str) -> Any:
        return call("exists", name)

    def shared(name: str) -> Any:
        return call.arrays[name]  # type: ignore[attr-defined]

    return {"Thing": Thing, "find": find, "exists": exists, "shared": shared, **config}


def encode(obj: object) -> Ref | None:
    return Ref("thing", (obj.name, obj.size)) if type(obj) is Thing else None


def decode(ref: Ref, call: Callable[..., Any]) -> object:
    name, size = ref.fields
    return Thing(str(name), float(size), call)
