"""Flags the effective and ineffective actions of a workflow, by rules.

Source: DWIM (2025), supplement, sec. 9: ineffective are code that ended in a traceback, an action
followed by a thought with "however" or "rethink", and that thought itself, because it depends on
the label. Ours: also ineffective are code that ran before on the same values, code that gave the
answer that was already stored, and code whose values the answer does not depend on. Dependence is
tracked by the names that code reads and assigns.

:mod:`viper.tuning.agent.flags` also lets a language model read the whole workflow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from viper.prompting.exploring import FINAL
from viper.schema import Turn
from viper.strategies.explore.code import CANDIDATES, view

_RETHINKS = re.compile(r"\b(however|rethink|re-think|replan|re-plan|try again)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Flag:
    """Flag of a turn.

    Attributes:
        index: index of the turn.
        reason: why the turn is ineffective: ``traceback``, ``doubted``, ``rethink``,
            ``discrepancy``, ``repeated``, ``confirmed``, ``unused`` or ``unreadable``; ``said`` if
            a language model flagged it; "" if the turn is effective.
        by: ``rules`` or ``llm``.
    """

    index: int
    reason: str = ""
    by: str = "rules"

    @property
    def is_effective(self) -> bool:
        return not self.reason


def flagged(turns: Sequence[Turn]) -> list[Flag]:
    """Return a flag for every turn, in order. A stop at a limit counts as unreadable."""
    reasons = []
    names = _Names()
    for place, turn in enumerate(turns):
        after = turns[place + 1] if place + 1 < len(turns) else None
        reasons.append(_reason(turn, after) or names.idle(turn))
    for place in _unused(turns, reasons):
        reasons[place] = "unused"
    return [Flag(turn.index, reason) for turn, reason in zip(turns, reasons, strict=True)]


def is_rethinking(turn: Turn) -> bool:
    """Return whether a turn is a thought that revises something."""
    return turn.kind == "thought" and (
        turn.by == "checker" or _RETHINKS.search(turn.text) is not None
    )


def _reason(turn: Turn, after: Turn | None) -> str:
    """Return the reason that the turn itself and the next one give."""
    if turn.kind in ("unreadable", "forced"):
        return "unreadable"
    if turn.kind == "code" and turn.failure is not None:
        return "traceback"
    if is_rethinking(turn):
        return "discrepancy"
    if after is not None and is_rethinking(after):
        return "rethink" if turn.kind == "thought" else "doubted"
    return "traceback" if turn.kind == "done" and turn.result else ""


class _Names:
    """Values of the names assigned so far. Ineffective code counts as never run."""

    def __init__(self) -> None:
        self._written: dict[str, int] = {}
        self._values: dict[str, Any] = {}
        self._ran: dict[tuple[str, frozenset[tuple[str, int]]], int] = {}

    def idle(self, turn: Turn) -> str:
        """Return why the useful code of a turn changed nothing, and follow its assignments.

        ``repeated``: the same code ran before on the same values of the names that it reads.
        ``confirmed``: the code assigned one answer name, which already held the same answer.
        """
        code = view(turn.text) if turn.kind == "code" and turn.failure is None else None
        if code is None:
            return ""
        read = frozenset((name, self._written.get(name, 0)) for name in code.loaded)
        number = self._ran.get((turn.text, read))
        is_repeated = number is not None
        if number is None:
            number = self._ran[turn.text, read] = len(self._ran) + 1
        gives = code.gives
        is_confirmed = (
            gives in CANDIDATES
            and code.stored == {gives}
            and turn.value is not None
            and self._values.get(gives) == turn.value
        )
        for name in code.stored:
            self._written[name] = number
            self._values.pop(name, None)
        if gives and turn.value is not None:
            self._values[gives] = turn.value
        return "repeated" if is_repeated else "confirmed" if is_confirmed else ""


def _unused(turns: Sequence[Turn], reasons: Sequence[str]) -> set[int]:
    """Return the indices of otherwise effective code whose values the answer does not depend on.

    The search goes backwards from the answer: the stored one or, if a limit ended the run, the last
    value that could be one. Code that assigns a needed name is used, and the names that it reads
    become needed. Code that assigns nothing only looked at values and counts as used. Code that is
    ineffective for another reason is skipped, because the code that it repeats or confirms counts.
    """
    needed, unused = {FINAL, *_forced_name(turns)}, set()
    for place in range(len(turns) - 1, -1, -1):
        turn = turns[place]
        code = view(turn.text) if turn.kind == "code" and not reasons[place] else None
        if code is None:
            continue
        if code.stored and not code.stored & needed:
            unused.add(place)
            continue
        needed -= code.sure
        needed |= code.loaded
    return unused


def _forced_name(turns: Sequence[Turn]) -> set[str]:
    """Return the name of the value that became the answer at a limit, unless it was stored as
    the answer."""
    if not turns or turns[-1].kind != "forced" or turns[-1].value is None:
        return set()
    for turn in reversed(turns[:-1]):
        code = view(turn.text) if turn.kind == "code" and turn.failure is None else None
        if code is None:
            continue
        if FINAL in code.stored:
            return set()
        if turn.value == turns[-1].value:
            return {code.gives} if code.gives else set()
    return set()
