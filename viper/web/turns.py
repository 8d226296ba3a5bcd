"""The turns of strategy ``explore`` for a page, each with what the rules hold it to be worth.

Turns come out of a trace, which may come out of a file: whatever they hold becomes text here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from viper.schema import ToolCall, Turn, Usage
from viper.tuning.agent.flagging import flagged

MOST_TURNS = 200

_CALLED = {
    "code": "code",
    "thought": "thought",
    "done": "done",
    "unreadable": "no action could be read",
    "forced": "ended at a bound",
}


@dataclass(frozen=True)
class TurnView:
    """One turn.

    Attributes:
        what: the action in words.
        tools: that its code called, each with how often.
        reason: why it was of no use; "" where it was.
    """

    number: int
    kind: str
    what: str
    text: str
    result: str
    tools: tuple[tuple[str, int], ...]
    reason: str
    by: str
    tokens: int


def turn_views(turns: Sequence[Any], calls: Sequence[ToolCall]) -> tuple[TurnView, ...]:
    """The views of a trace's turns; what is no turn is passed over."""
    found = [one for one in turns if isinstance(one, Turn)][:MOST_TURNS]
    plain = [_plain(one) for one in found]
    names = {call.index: str(call.tool) for call in calls}
    views = []
    for number, (turn, flag) in enumerate(zip(plain, flagged(plain), strict=True), start=1):
        tools: dict[str, int] = {}
        for index in turn.calls:
            if index in names:
                tools[names[index]] = tools.get(names[index], 0) + 1
        views.append(
            TurnView(
                number,
                turn.kind,
                _CALLED.get(turn.kind, turn.kind),
                turn.text,
                turn.result,
                tuple(tools.items()),
                flag.reason,
                turn.by,
                turn.writing.prompt_tokens + turn.writing.completion_tokens,
            )
        )
    return tuple(views)


def _plain(turn: Turn) -> Turn:
    """The turn with fields of the types that they should have."""
    calls = turn.calls if isinstance(turn.calls, tuple) else ()
    writing = turn.writing if isinstance(turn.writing, Usage) else Usage()
    tokens = (writing.prompt_tokens, writing.completion_tokens)
    if not all(type(one) is int for one in tokens):
        writing = Usage()
    kept = tuple(one for one in calls if type(one) is int)
    return Turn(
        0,
        str(turn.kind),
        str(turn.text),
        str(turn.result),
        turn.failure,
        kept,
        turn.value,
        writing=writing,
        by=str(turn.by),
    )
