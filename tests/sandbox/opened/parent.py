"""Takes the parent's checks away, one at a time: of calls, and of what comes over the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from viper.sandbox import turn, wire
from viper.tools import tool_functions
from viper.tools.session import Region, ToolSession
from viper.tools.toolbox import ALL_TOOLS, Toolbox

Patch = Callable[[pytest.MonkeyPatch], None]


def _any_argument(patch: pytest.MonkeyPatch) -> None:
    """Whatever names a picture is its first one, and any value is a text."""

    def region(self: ToolSession, ref: Any) -> Region:
        height, width = self.media.images[0].shape[:2]
        return Region("image0", (0, 0, width, height), (width, height))

    patch.setattr(ToolSession, "region", region)
    patch.setattr(tool_functions, "_text", lambda value, name: str(value)[:100])
    patch.setattr(
        tool_functions, "_texts", lambda values, name: [str(v)[:100] for v in values] or ["x"]
    )
    _with_tools(patch, {**ALL_TOOLS, "best_image_match": lambda *_: 0})


def _any_segment(patch: pytest.MonkeyPatch) -> None:
    """Whatever names a segment or a frame is the whole video or its first frame."""

    def region(self: ToolSession, ref: Any) -> Region:
        height, width = self.media.pixels("video0#0").shape[:2]
        return Region("video0#0", (0, 0, width, height), (width, height))

    patch.setattr(ToolSession, "segment", lambda self, ref: ("video0", 0, 4))
    patch.setattr(ToolSession, "region", region)
    patch.setattr(tool_functions, "_text", lambda value, name: str(value)[:100])


def _any_signature(patch: pytest.MonkeyPatch) -> None:
    """A tool takes whatever it is given."""
    _with_tools(patch, {"find": lambda *args, **kwargs: "found"})


def _any_tool(patch: pytest.MonkeyPatch) -> None:
    """The name of a tool is any attribute of the session, or of the module of tools."""

    def answer(self: ToolSession, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        found = getattr(self, name.strip().lower() or "call", None) or vars(tool_functions).get(
            name
        )
        return f"reached {found}" if found else "reached the shell"

    patch.setattr(ToolSession, "nested", answer)


def _any_frame(patch: pytest.MonkeyPatch) -> None:
    """A frame that breaks the rules counts as a good answer."""
    answer = {"t": "done", "ok": True, "v": "accepted", "o": ""}
    patch.setattr(wire, "unpack", _or(wire.unpack, answer))


def _any_value(patch: pytest.MonkeyPatch) -> None:
    """A value that breaks the rules counts as a text."""
    patch.setattr(turn, "decode", _or(turn.decode, "accepted"))


def _any_message(patch: pytest.MonkeyPatch) -> None:
    """Every message that is no call is an answer."""

    def serve(self: turn.TurnRunner) -> Any:
        meta, raw = self._receive()
        return self._done(meta | {"ok": True}, raw)

    patch.setattr(turn.TurnRunner, "_serve", serve)


def _any_call(patch: pytest.MonkeyPatch) -> None:
    """A call that breaks the rules is a call without arguments."""
    patch.setattr(turn, "_parse_call", _or(turn._parse_call, ("find", (), {}, None)))


def _any_empty(patch: pytest.MonkeyPatch) -> None:
    """A list of empty calls that breaks the rules is as good as none."""
    patch.setattr(turn, "_parse_empty_calls", _or(turn._parse_empty_calls, ()))


def _with_tools(patch: pytest.MonkeyPatch, tools: Mapping[str, Callable[..., Any]]) -> None:
    """Every toolbox has these tools, also one that was made before."""
    patch.setattr(Toolbox, "tools", property(lambda toolbox: tools), raising=False)


def _or(check: Callable[..., Any], otherwise: Any) -> Callable[..., Any]:
    """``check`` that answers ``otherwise`` where it would refuse."""

    def lenient(*args: Any, **kwargs: Any) -> Any:
        try:
            return check(*args, **kwargs)
        except (wire.WireError, TypeError, ValueError):
            return otherwise

    return lenient


CALLS: Mapping[str, Patch] = {
    "arguments": _any_argument,
    "segments": _any_segment,
    "signatures": _any_signature,
    "tool names": _any_tool,
}
"""By guard of ``tests/sandbox/abuse/tool_calls.py``."""

WIRE: Mapping[str, Patch] = {
    "unpack": _any_frame,
    "decode": _any_value,
    "state": _any_message,
    "call": _any_call,
    "empty calls": _any_empty,
}
"""By guard of ``tests/sandbox/abuse/wire_frames.py``."""
