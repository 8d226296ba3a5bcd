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
    """Return a flag for every turn, in order. A stop at a limit counts as unreadable.

    Code is ``repeated`` if the same code ran before on the same values of the names that it reads,
    and ``confirmed`` if it assigned one answer name, which already held the same answer.
    """
    reasons: list[str] = []
    # Values of the names assigned so far; ineffective code counts as never run.
    values: dict[str, Any] = {}
    written: dict[str, int] = {}
    ran: dict[tuple[str, frozenset[tuple[str, int]]], int] = {}
    for place, turn in enumerate(turns):
        reasons.append(_reason(turn, turns[place + 1] if place + 1 < len(turns) else None))
        code = view(turn.text) if turn.kind == "code" and not reasons[-1] else None
        if code is None:
            continue
        gives, value = code.gives, turn.value
        run = (turn.text, frozenset((name, written.get(name, 0)) for name in code.loaded))
        if run in ran:
            reasons[-1] = "repeated"
        elif gives in CANDIDATES and code.stored == {gives} and value is not None:
            reasons[-1] = "confirmed" if values.get(gives) == value else ""
        number = ran.setdefault(run, len(ran) + 1)
        for name in code.stored:
            written[name] = number
            values.pop(name, None)
        if gives and value is not None:
            values[gives] = value
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


def _unused(turns: Sequence[Turn], reasons: Sequence[str]) -> set[int]:
    """Return the indices of otherwise effective code whose values the answer does not depend on.

    The search goes backwards from the answer: the stored one or, if a limit ended the run, the last
    value that could be one. Code that assigns a needed name is used, and the names that it reads
    become needed. Code that assigns nothing only looked at values and counts as used. Code that is
    ineffective for another reason is skipped, because the code that it repeats or confirms counts.
    """
    needed, unused = {FINAL}, set[int]()
    last = turns[-1] if turns else None
    if last is not None and last.kind == "forced" and last.value is not None:
        for turn in reversed(turns[:-1]):
            code = view(turn.text) if turn.kind == "code" and turn.failure is None else None
            if code is not None and FINAL in code.stored:
                break
            if code is not None and turn.value == last.value:
                needed |= {code.gives} if code.gives else set()
                break
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
