"""The path of strategy ``seek`` for a page: its steps, and a drawing of them over the states.

A path comes out of a trace, which may come out of a file: whatever it holds becomes text here, and
what is no step is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.strategies.seek.graph import START
from viper.strategies.seek.names import ACTIONS

ROW, COLUMN, LABEL = 22, 52, 96
"""Of the drawing: height of a state's row, width of a step and of the names."""

MOST_STEPS = 200


@dataclass(frozen=True)
class ActionChoice:
    """An action at a step: ``taken``, ``allowed`` or ``excluded``."""

    action: str
    was: str


@dataclass(frozen=True)
class StepView:
    """One decision with its outcome; ``back`` is set where the search went back before it."""

    number: int
    state: str
    query: str
    action: str
    words: str
    choices: tuple[ActionChoice, ...]
    found: tuple[str, ...]
    verdict: str
    extracted: str
    reason: str
    failure: str
    planned: bool
    back: tuple[str, ...] = ()


@dataclass(frozen=True)
class PathLine:
    """From the state to what was done; ``kind`` is the verdict."""

    x0: int
    y0: int
    x1: int
    y1: int
    kind: str


@dataclass(frozen=True)
class PathMark:
    """An action at a step, as drawn."""

    x: int
    y: int
    was: str


@dataclass(frozen=True)
class PathDrawing:
    """States from top to bottom, steps from left to right."""

    width: int
    height: int
    labels: tuple[tuple[str, int], ...]
    lines: tuple[PathLine, ...]
    marks: tuple[PathMark, ...]


@dataclass(frozen=True)
class PathView:
    """All of a search.

    Attributes:
        split: the visual sub-question and the one about knowledge; empty where none was made.
    """

    split: tuple[str, str]
    steps: tuple[StepView, ...]
    drawing: PathDrawing

    @property
    def said(self) -> str:
        """The path in one line."""
        return ", ".join(f"{one.action}: {one.verdict or 'no verdict'}" for one in self.steps)


def path_view(path: Sequence[Any]) -> PathView | None:
    """The view of a trace's path; None where there is none."""
    split, steps, back = ("", ""), list[StepView](), list[str]()
    for one in path:
        if not isinstance(one, Mapping):
            continue
        if "visual" in one:
            split = (_text(one, "visual"), _text(one, "knowledge"))
        elif "back" in one:
            back.append(_text(one, "state"))
        elif "action" in one and len(steps) < MOST_STEPS:
            steps.append(_step(one, len(steps) + 1, tuple(back)))
            back = []
    if not steps and not any(split):
        return None
    return PathView(split, tuple(steps), _drawing(steps))


def _step(one: Mapping[str, Any], number: int, back: tuple[str, ...]) -> StepView:
    action = _text(one, "action")
    excluded = [str(each[0]) for each in _items(one, "excluded") if _items({"it": each}, "it")]
    choices = dict.fromkeys(map(str, _items(one, "allowed")), "allowed")
    choices |= {name: "excluded" for name in excluded if name not in choices}
    choices[action] = "taken"
    texts = ("state", "query", "words", "verdict", "extracted", "reason", "failure")
    return StepView(
        number=number,
        action=action,
        choices=tuple(ActionChoice(name, was) for name, was in choices.items()),
        found=tuple(map(str, _items(one, "found"))),
        planned=one.get("planned") is not False,
        back=back,
        **{name: _text(one, name) for name in texts},
    )


def _drawing(steps: Sequence[StepView]) -> PathDrawing:
    there = {name for one in steps for name in (one.state, *(each.action for each in one.choices))}
    names = [name for name in (START, *ACTIONS) if name in there or name == START]
    names += sorted(there - set(names))
    rows = {name: ROW * place + ROW // 2 for place, name in enumerate(names)}
    entered = {START: LABEL}
    lines, marks = [], []
    for one in steps:
        x = LABEL + COLUMN * one.number
        begin = entered.get(one.state, LABEL)
        lines.append(PathLine(begin, rows[one.state], x, rows[one.action], one.verdict))
        marks += [PathMark(x, rows[each.action], each.was) for each in one.choices]
        if one.verdict in ("informative", "answer"):
            entered[one.action] = x
    return PathDrawing(
        LABEL + COLUMN * (len(steps) + 1),
        ROW * len(names),
        tuple(rows.items()),
        tuple(lines),
        tuple(marks),
    )


def _text(one: Mapping[str, Any], key: str) -> str:
    value = one.get(key, "")
    return "" if value is None else str(value)


def _items(one: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = one.get(key)
    return value if isinstance(value, (list, tuple)) else ()
