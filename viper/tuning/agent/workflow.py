"""One query explored, kept as training data: the turns, the label, and how it ended.

Source: DWIM (2025), supplement, secs. 8 and 10. Ours: what counts as copied (:func:`is_copied`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viper.agreement import normalise_answer
from viper.prompting.exploring import FINAL, Action, Step
from viper.schema import Query, ToolCall, Turn, Usage
from viper.tuning.agent.code import Constant, constants_after, view

MODES = ("standard", "given", "discrepancy")
"""How workflows are made: without the label, with it in the prompt, with a checker who knows it."""

_REPR = re.compile(r"(?:ImagePatch|VideoSegment)\([^()]*\)")
"""Patches and segments as they are printed; their numbers tell nothing."""

OUTCOMES = ("right", "wrong", "copied", "unanswered")


@dataclass(frozen=True)
class Workflow:
    """A workflow with what is known of it.

    Attributes:
        id: of the sample.
        set: data set of the sample.
        kind: type of the query in its set; "" where it has none.
        captions: of the media, with which it opened.
        answer: JSON; None where none was reached.
        label: the desired answer, as :class:`viper.tuning.case.Case` has it.
        manner: one of :data:`MODES`.
        outcome: one of :data:`OUTCOMES`.
        tool_calls: of all turns.
        made_by: the agent with its settings, in a line; others are not mixed with it.
        cluster: what samples about the same media share; "" where every sample has its own.
        error: why there are no turns, where the sample could not be explored.
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
        return Step(Action("thought", turn.text), turn.result)
    if turn.kind == "done":
        return Step(Action("done"), turn.result)
    return Step(None, turn.result, turn.text)


def outcome_of(turns: Sequence[Turn], answer: Any, is_right: bool) -> str:
    """Return the outcome of a workflow."""
    if answer is None:
        return "unanswered"
    if not is_right:
        return "wrong"
    return "copied" if is_copied(turns) else "right"


def is_copied(turns: Sequence[Turn]) -> bool:
    """Return whether the answer was written as a constant that no earlier result contains.

    It is a constant that the agent's code spells out, under whatever name it went on, and no turn
    before that had the value: as it is, as the length of a list, or among the words of a text.
    """
    written = written_answer(turns)
    return written is not None and restated(turns, written) is None


def written_answer(turns: Sequence[Turn]) -> Constant | None:
    """Return the constant that is the answer, or None if the answer was computed.

    At a bound without a stored answer, the constant that the last code that was worth anything is.
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


def restated(turns: Sequence[Turn], written: Constant) -> Turn | None:
    """Return the last earlier turn whose result a constant repeats, or None."""
    literal = normalise_answer(written.value)
    for turn in reversed(turns[: written.place]):
        if turn.kind != "code" or turn.failure is not None:
            continue
        printed = _REPR.sub("", turn.result) if turn.value is None else None
        if tells(turn.value, literal) or tells(printed, literal):
            return turn
    return None


def tells(value: Any, literal: str) -> bool:
    """Return whether a value equals the literal once normalised, contains it, or is a list of that
    length."""
    if value is None:
        return False
    if isinstance(value, Mapping):
        return any(tells(one, literal) for one in value.values())
    if isinstance(value, list | tuple):
        return str(len(value)) == literal or any(tells(one, literal) for one in value)
    words = normalise_answer(value) if isinstance(value, str | int | float | bool) else ""
    return bool(words) and (words == literal or f" {literal} " in f" {words} ")
