"""A small library that runs untrusted programs in locked processes and reports typed failures.

It works without anything visual: two small tools and a prelude that names them are enough. Public
names are loaded on first use, so the processes that run programs import only what they need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from viper.sandbox.limits import Limits as Limits
    from viper.sandbox.outcome import Call as Call
    from viper.sandbox.outcome import EmptyCall as EmptyCall
    from viper.sandbox.outcome import Layer as Layer
    from viper.sandbox.outcome import Outcome as Outcome
    from viper.sandbox.outcome import describe_failure as describe_failure
    from viper.sandbox.sandbox import Sandbox as Sandbox
    from viper.sandbox.sandbox import Session as Session
    from viper.sandbox.tools import Prelude as Prelude
    from viper.sandbox.tools import Source as Source
    from viper.sandbox.tools import ToolClient as ToolClient
    from viper.sandbox.wire import Ref as Ref

_MODULES = {
    "Limits": "limits",
    "Call": "outcome",
    "EmptyCall": "outcome",
    "Layer": "outcome",
    "Outcome": "outcome",
    "describe_failure": "outcome",
    "Sandbox": "sandbox",
    "Session": "sandbox",
    "Prelude": "tools",
    "Source": "tools",
    "ToolClient": "tools",
    "Ref": "wire",
}
__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
