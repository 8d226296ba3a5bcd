"""The prelude without value types: each configured name is a function that calls a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from viper.sandbox.wire import Ref

READABLE: Mapping[type, frozenset[str]] = {}


def names(call: Callable[..., Any], config: Mapping[str, Any]) -> dict[str, object]:
    """Return one function for each entry of ``config["functions"]``."""
    return {name: _forward(call, name) for name in config.get("functions", ())}


def encode(obj: object) -> Ref | None:
    """Return a reference unchanged, and None for anything else."""
    return obj if type(obj) is Ref else None


def decode(ref: Ref, call: Callable[..., Any]) -> object:
    """Return the reference itself, which is opaque to the program."""
    return ref


def _forward(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return call(name, *args, **kwargs)

    return forward
