"""View of a search path of strategy ``seek``: its steps, and a drawing of them over the states.

A path comes from a trace, which may come from a file. All its values become text, and invalid
steps are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.strategies.seek.graph import ACTIONS, START

# Sizes in the drawing: height of a state's row, width of a step, width of the names. A usual search
# of ten steps then fits beside the text without scrolling.
ROW, COLUMN, LABEL = 22, 52, 96

# A search ends far earlier; a path from a file need not.
MOST_STEPS = 200


@dataclass(frozen=True)
class StepView:
    """One decision with its outcome.

    Attributes:
        choices: each action at the step, as ``taken``, ``allowed`` or ``excluded``.
        back: states that the search left before it.
    """

    number: int
    state: str
    query: str
    action: str
    words: str
    choices: Mapping[str, str]
    findings: tuple[str, ...]
    verdict: str
    extracted: str
    reason: str
    failure: str
    planned: bool
    back: tuple[str, ...] = ()


@dataclass(frozen=True)
class PathDrawing:
    """Drawing with states from top to bottom and steps from left to right.

    Attributes:
        labels: each state with its height.
        lines: from each state to the action, ``(x0, y0, x1, y1)``, with the verdict.
        marks: each action at a step, ``(x, y)``, with what it was.
    """

    width: int
    height: int
    labels: tuple[tuple[str, int], ...]
    lines: tuple[tuple[int, int, int, int, str], ...]
    marks: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class PathView:
    """View of a whole search.

    Attributes:
        split: the visual sub-question and the knowledge sub-question; empty without a split.
    """

    split: tuple[str, str]
    steps: tuple[StepView, ...]
    drawing: PathDrawing

    @property
    def summary(self) -> str:
        """Return the path in one line."""
        return ", ".join(f"{step.action}: {step.verdict or 'no verdict'}" for step in self.steps)


def path_view(path: Sequence[Any]) -> PathView | None:
    """Return the view of a trace's path, or None without a path."""
    split, steps, back = ("", ""), list[StepView](), list[str]()
    for entry in path:
        if not isinstance(entry, Mapping):
            continue
        if "visual" in entry:
            split = (_text(entry, "visual"), _text(entry, "knowledge"))
        elif "back" in entry:
            back.append(_text(entry, "state"))
        elif "action" in entry and len(steps) < MOST_STEPS:
            steps.append(_step(entry, len(steps) + 1, tuple(back)))
            back = []
    if not steps and not any(split):
        return None
    return PathView(split, tuple(steps), _drawing(steps))


def _step(entry: Mapping[str, Any], number: int, back: tuple[str, ...]) -> StepView:
    action = _text(entry, "action")
    excluded = [str(each[0]) for each in _items(entry.get("excluded")) if _items(each)]
    choices = dict.fromkeys(map(str, _items(entry.get("allowed"))), "allowed")
    choices |= {name: "excluded" for name in excluded if name not in choices}
    choices[action] = "taken"
    texts = ("state", "query", "words", "verdict", "extracted", "reason", "failure")
    return StepView(
        number=number,
        action=action,
        choices=choices,
        findings=tuple(map(str, _items(entry.get("found")))),
        planned=entry.get("planned") is not False,
        back=back,
        **{name: _text(entry, name) for name in texts},
    )


def _drawing(steps: Sequence[StepView]) -> PathDrawing:
    used = {name for step in steps for name in (step.state, *step.choices)}
    names = [name for name in (START, *ACTIONS) if name in used or name == START]
    names += sorted(used - set(names))
    rows = {name: ROW * place + ROW // 2 for place, name in enumerate(names)}
    entered = {START: LABEL}
    lines, marks = [], []
    for step in steps:
        x = LABEL + COLUMN * step.number
        begin = entered.get(step.state, LABEL)
        lines.append((begin, rows[step.state], x, rows[step.action], step.verdict))
        marks += [(x, rows[action], was) for action, was in step.choices.items()]
        if step.verdict in ("informative", "answer"):
            entered[step.action] = x
    width, height = LABEL + COLUMN * (len(steps) + 1), ROW * len(names)
    return PathDrawing(width, height, tuple(rows.items()), tuple(lines), tuple(marks))


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key, "")
    return "" if value is None else str(value)


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()
