"""Which actions of a workflow were of use: by rules, from what followed and what was used.

Source: DWIM (2025), supplement, sec. 9: code that ended in a traceback, and what a thought with
"however" or "rethink" follows, is ineffective; so is that thought itself, since without the label
nobody would have it. Ours: what the answer was not made of (a result that nothing read, code that
was run before), followed by the names that code reads and writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from viper.prompting.exploring import FINAL
from viper.schema import Turn
from viper.tuning.agent.code import view

_RETHINKS = re.compile(r"\b(however|rethink|re-think|replan|re-plan|try again)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Flag:
    """Of the turn at an index: why it is ineffective; "" where it is effective.

    ``traceback``, ``doubted``, ``rethink``, ``discrepancy``, ``repeated``, ``unused`` or
    ``unreadable``; ``said`` where a language model says so.
    """

    index: int
    reason: str = ""

    @property
    def is_effective(self) -> bool:
        return not self.reason


def flagged(turns: Sequence[Turn]) -> list[Flag]:
    """A flag for every turn, in their order; the end at a bound counts as unreadable."""
    unused = _unused(turns)
    seen: set[str] = set()
    flags = []
    for place, turn in enumerate(turns):
        after = turns[place + 1] if place + 1 < len(turns) else None
        reason = _reason(turn, after, turn.text in seen)
        if not reason and turn.kind == "code" and place in unused:
            reason = "unused"
        if turn.kind == "code":
            seen.add(turn.text)
        flags.append(Flag(turn.index, reason))
    return flags


def is_rethinking(turn: Turn) -> bool:
    """Whether a turn is a thought that takes something back."""
    return turn.kind == "thought" and (
        turn.by == "checker" or _RETHINKS.search(turn.text) is not None
    )


def _reason(turn: Turn, after: Turn | None, is_repeated: bool) -> str:
    if turn.kind in ("unreadable", "forced"):
        return "unreadable"
    if turn.kind == "code" and turn.failure is not None:
        return "traceback"
    if is_rethinking(turn):
        return "discrepancy"
    if after is not None and is_rethinking(after):
        return "rethink" if turn.kind == "thought" else "doubted"
    if turn.kind == "done" and turn.result:
        return "traceback"
    return "repeated" if turn.kind == "code" and is_repeated else ""


def _unused(turns: Sequence[Turn]) -> set[int]:
    """Places of code that nothing of the answer was made of.

    Followed from the end: what is needed there is the answer; code that assigns something needed is
    used, and needs what it reads. Code that assigns nothing was a look, and counts as used.
    """
    needed, unused = {FINAL}, set()
    for place in range(len(turns) - 1, -1, -1):
        turn = turns[place]
        found = view(turn.text) if turn.kind == "code" and turn.failure is None else None
        if found is None:
            continue
        if found.stored and not found.stored & needed:
            unused.add(place)
            continue
        needed -= found.stored
        needed |= found.loaded
    return unused
