"""Both value types of the test prelude and the names of the visual API in one prelude."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.sandbox import toy_prelude as toy
from viper.api import prelude as visual
from viper.sandbox.wire import Ref

__all__ = ["READABLE", "decode", "encode", "names"]

READABLE: Mapping[type, frozenset[str]] = {**toy.READABLE, **visual.READABLE}


def names(call: Callable[..., Any], config: Mapping[str, Any]) -> dict[str, object]:
    return {**visual.names(call, {}), **toy.names(call, {})}


def encode(obj: object) -> Ref | None:
    return toy.encode(obj) or visual.encode(obj)


def decode(ref: Ref, call: Callable[..., Any]) -> object:
    return toy.decode(ref, call) if ref.kind == "thing" else visual.decode(ref, call)
