"""One query explored, kept as training data: the turns, the label, and how it ended.

Source: DWIM (2025), supplement, secs. 8 and 10. Ours: what counts as copied (:func:`is_copied`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.agreement import normalised
from viper.prompting.exploring import FINAL, Action, Step
from viper.schema import Query, ToolCall, Turn, Usage, record_from_json, to_json
from viper.tuning.agent.code import stored_literal, view

MANNERS = ("standard", "given", "discrepancy")
"""How workflows are made: without the label, with it in the prompt, with a checker who knows it."""

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
        manner: one of :data:`MANNERS`.
        outcome: one of :data:`OUTCOMES`.
        tool_calls: of all turns.
        made_by: the agent with its settings, in a line; others are not mixed with it.
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
    seed: int = 0
    made_by: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; :meth:`from_json` reads them back."""
        values: dict[str, Any] = to_json(self)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Workflow:
        """The inverse of :meth:`to_json`.

        Raises:
            ValueError: these are no values of a workflow.
        """
        try:
            made = record_from_json(cls, values)
            if not _is_sound(made):
                raise TypeError("a field of another type")
        except (TypeError, AttributeError, KeyError) as error:
            raise ValueError(f"no workflow: {error}") from None
        if made.manner not in MANNERS or made.outcome not in OUTCOMES:
            raise ValueError(
                f"no workflow: manner {made.manner!r}, outcome {made.outcome!r}; expected one of "
                f"{', '.join(MANNERS)} and one of {', '.join(OUTCOMES)}"
            )
        return made

    @property
    def steps(self) -> tuple[Step, ...]:
        """The turns as prompts show them."""
        return tuple(step_of(turn) for turn in self.turns if turn.kind != "forced")


def _is_sound(made: Workflow) -> bool:
    """Whether what came out of a file has the types that are relied on."""
    texts = [made.id, made.set, made.kind, made.made_by, *made.captions]
    numbers = [made.seed]
    if not isinstance(made.query, Query) or not isinstance(made.usage, Usage):
        return False
    texts += [made.query.text, made.query.task, made.query.media, *made.query.options]
    for turn in made.turns:
        if not isinstance(turn, Turn) or not isinstance(turn.writing, Usage):
            return False
        texts += [turn.kind, turn.text, turn.result, turn.by]
        numbers += [turn.index, *turn.calls]
    for call in made.tool_calls:
        if not isinstance(call, ToolCall):
            return False
        texts.append(call.tool)
        numbers.append(call.index)
    return all(isinstance(one, str) for one in texts) and all(type(one) is int for one in numbers)


def step_of(turn: Turn) -> Step:
    """A turn as a prompt shows it."""
    if turn.kind == "code":
        return Step(Action("code", turn.text), turn.result)
    if turn.kind == "thought":
        return Step(Action("thought", turn.text), turn.result)
    if turn.kind == "done":
        return Step(Action("done"), turn.result)
    return Step(None, turn.result, turn.text)


def outcome_of(turns: Sequence[Turn], answer: Any, is_right: bool) -> str:
    """How a workflow ended."""
    if answer is None:
        return "unanswered"
    if not is_right:
        return "wrong"
    return "copied" if is_copied(turns) else "right"


def is_copied(turns: Sequence[Turn]) -> bool:
    """Whether the answer was written down without any result before it that says so.

    The code that stored it last gives a literal, and no earlier turn that ran had that value: as
    it is, as the length of a list, or among the words of a text.
    """
    storing = [n for n, one in enumerate(turns) if stored_literal(one) is not None]
    if not storing or any(_computes_final(one) for one in turns[storing[-1] + 1 :]):
        return False
    literal = normalised(stored_literal(turns[storing[-1]]))
    before = turns[: storing[-1]]
    return not any(_tells(one.value, literal) for one in before if one.kind == "code")


def _computes_final(turn: Turn) -> bool:
    found = view(turn.text) if turn.kind == "code" and turn.failure is None else None
    return found is not None and FINAL in found.stored


def _tells(value: Any, literal: str) -> bool:
    if value is None:
        return False
    if isinstance(value, list | tuple):
        return str(len(value)) == literal or any(_tells(one, literal) for one in value)
    said = normalised(value) if isinstance(value, str | int | float | bool) else ""
    return bool(said) and (said == literal or f" {literal} " in f" {said} ")
