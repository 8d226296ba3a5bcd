"""Workflow: one agent episode as training data, with its turns, the label and the outcome.

`Workflow` is the stored record; `outcome_of` judges it, by looking for an answer that was written
instead of found (`written_answer`, `restated`).

Source: DWIM (2025), supplement, secs. 8 and 10. Ours: the definition of copying
(:func:`outcome_of`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viper.agreement import normalise_answer
from viper.prompting.exploring import FINAL, Action, Step
from viper.schema import Query, ToolCall, Turn, Usage
from viper.strategies.explore.code import Constant, constants_after, view

# Collection modes: without the label, with it in the prompt, with a verifier that knows it.
MODES = ("standard", "given", "discrepancy")

# Printed patches and segments. Their numbers do not count as results.
_REPR = re.compile(r"(?:ImagePatch|VideoSegment)\([^()]*\)")

OUTCOMES = ("right", "wrong", "copied", "unanswered")


@dataclass(frozen=True)
class Workflow:
    """One agent episode on a sample.

    Attributes:
        id: id of the sample.
        set: data set of the sample.
        kind: type of the query in its set; "" if it has none.
        captions: captions of the media at the start.
        answer: the answer as a JSON value; None if the agent gave none.
        label: the desired answer in the form of :attr:`viper.tuning.case.Case.desired`.
        manner: collection mode, one of :data:`MODES`.
        outcome: one of :data:`OUTCOMES`.
        tool_calls: the tool calls of all turns.
        made_by: the agent and its settings in one line. A folder holds workflows of one agent.
        cluster: id shared by samples about the same media; "" if every sample has its own media.
        error: why there are no turns, if the sample could not be explored.
    """

    id: str
    set: str
    query: Query
    captions: tuple[str, ...]
    turns: tuple[Turn, ...]
    answer: Any
    label: Any
    manner: str
    outcome: str
    kind: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0
    seed: int = field(default=0, metadata={"strict": True})
    made_by: str = ""
    cluster: str = ""
    error: str = ""

    def __post_init__(self) -> None:
        if self.manner not in MODES or self.outcome not in OUTCOMES:
            raise ValueError(
                f"no workflow: manner {self.manner!r}, outcome {self.outcome!r}; expected one of "
                f"{', '.join(MODES)} and one of {', '.join(OUTCOMES)}"
            )

    @property
    def unit(self) -> str:
        """Return the unit of resampling: the cluster, else the sample."""
        return f"{self.set} {self.cluster or self.id}"

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the turns as prompts show them."""
        return tuple(step_of(turn) for turn in self.turns if turn.kind != "forced")


def step_of(turn: Turn) -> Step:
    """Return a turn as a prompt shows it."""
    if turn.kind == "code":
        return Step(Action("code", turn.text), turn.result)
    if turn.kind == "thought":
        return Step(Action("thought", turn.text), turn.result, by=turn.by)
    if turn.kind == "done":
        return Step(Action("done"), turn.result)
    return Step(None, turn.result, turn.text)


def outcome_of(turns: Sequence[Turn], answer: Any, is_right: bool) -> str:
    """Return the outcome of a workflow.

    A right answer is copied if it was written as a constant that no earlier result contains. The
    agent's code spells out the constant, possibly under another name later. No earlier turn had
    that value: as a whole, as the length of a list, or among the words of a text.
    """
    if answer is None:
        return "unanswered"
    if not is_right:
        return "wrong"
    constant = written_answer(turns)
    return "right" if constant is None or restated(turns, constant) is not None else "copied"


def written_answer(turns: Sequence[Turn]) -> Constant | None:
    """Return the constant that is the answer, or None if the answer was computed.

    If a limit ended the run without a stored answer, it is the constant of the last code that gave
    a value.
    """
    constants: dict[str, Constant] = {}
    last: Constant | None = None
    is_stored = False
    for place, turn in enumerate(turns):
        if turn.kind != "code" or turn.failure is not None:
            continue
        constants, value = constants_after(turn.text, constants, place)
        last = value if turn.value is not None else last
        code = view(turn.text)
        is_stored = is_stored or (code is not None and FINAL in code.stored)
    if is_stored or not turns or turns[-1].kind != "forced":
        return constants.get(FINAL)
    return last


def restated(turns: Sequence[Turn], constant: Constant) -> Turn | None:
    """Return the last earlier turn whose result a constant repeats, or None."""
    literal = normalise_answer(constant.value)
    for turn in reversed(turns[: constant.place]):
        if turn.kind != "code" or turn.failure is not None:
            continue
        printed = _REPR.sub("", turn.result) if turn.value is None else None
        if tells(turn.value, literal) or tells(printed, literal):
            return turn
    return None


def tells(value: Any, literal: str) -> bool:
    """Return whether a normalised value equals or contains the literal, or is a list of that
    length."""
    if value is None:
        return False
    if isinstance(value, Mapping):
        return any(tells(item, literal) for item in value.values())
    if isinstance(value, list | tuple):
        return str(len(value)) == literal or any(tells(item, literal) for item in value)
    words = normalise_answer(value) if isinstance(value, str | int | float | bool) else ""
    return bool(words) and (words == literal or f" {literal} " in f" {words} ")


def tool_of(turns: Sequence[Turn]) -> str:
    """Return the tool that the last result came from, named as in traces, or "" if there is none.

    It is the last tool that the turn's own code called, else the last of the preceding code.
    """
    for turn in reversed(turns):
        code = view(turn.text) if turn.kind == "code" and turn.failure is None else None
        if code is not None and code.tools:
            return code.tools[-1]
    return ""
