"""A small library that runs untrusted programs in locked processes and reports typed failures.

It works without anything visual: two small tools and a prelude that names them are enough. Public
names are loaded on first use, so the processes that run programs import only what they need.

:class:`Sandbox` compiles nothing itself. It takes a child from :mod:`viper.sandbox.pool`, and
:mod:`viper.sandbox.turn` sends it the program and answers its calls. In the child
(:mod:`viper.sandbox.child`), :mod:`viper.sandbox.policy` checks and compiles the program, and
:mod:`viper.sandbox.guards` decides about every access while it runs. What programs may import is in
:mod:`viper.sandbox.modules`, the builtins they have in :mod:`viper.sandbox.names`.

The package needs RestrictedPython, msgpack, pyseccomp and landlockpy, and of viper only
:mod:`viper.errors` and :mod:`viper.schema`. With numpy, programs have arrays.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from viper.sandbox.interface import Call as Call
    from viper.sandbox.interface import EmptyCall as EmptyCall
    from viper.sandbox.interface import Layer as Layer
    from viper.sandbox.interface import Limits as Limits
    from viper.sandbox.interface import Outcome as Outcome
    from viper.sandbox.interface import Prelude as Prelude
    from viper.sandbox.interface import Source as Source
    from viper.sandbox.interface import ToolClient as ToolClient
    from viper.sandbox.interface import describe_failure as describe_failure
    from viper.sandbox.sandbox import Sandbox as Sandbox
    from viper.sandbox.sandbox import Session as Session
    from viper.sandbox.wire import Ref as Ref

# The module of each public name; all others are in ``interface``.
_ELSEWHERE = {"Sandbox": "sandbox", "Session": "sandbox", "Ref": "wire"}
__all__ = [
    "Call", "EmptyCall", "Layer", "Limits", "Outcome", "Prelude", "Ref", "Sandbox", "Session",
    "Source", "ToolClient", "describe_failure",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'interface')}"), name)
