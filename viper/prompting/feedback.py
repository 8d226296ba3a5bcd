"""Feedback on a failed program in plain words, for a model that writes the next one.

Source: Stanić et al. 2024, A.3, for feedback in the prompt; the words are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.api.sets import ApiEntry
from viper.prompting.template import MODULE_NAMES, fill
from viper.schema import Failure, ToolCall

# Greatest number of calls in a feedback, the last ones.
MAX_CALLS = 12

_MAX_VALUE = 120
_WITHOUT_PROGRAM = ("refusal", "truncated", "no_program")


@dataclass(frozen=True)
class FailedProgram:
    """An earlier program for the same query and the reason why it gave no answer.

    Attributes:
        calls: the tool calls that it made.
    """

    program: str
    failure: Failure
    calls: Sequence[ToolCall] = ()


def feedback_text(failed: FailedProgram, entries: Sequence[ApiEntry]) -> str:
    """Return what went wrong, the calls with their results, and what is allowed.

    Args:
        entries: the names that a program may call.
    """
    calls = "\n".join(f"- {call_text(call)}" for call in failed.calls[-MAX_CALLS:])
    values = {
        "problem": _problem(failed, entries),
        "calls": f"\nThe calls it made, with their results:\n{calls}\n" if calls else "",
    }
    return fill("feedback_chat", values).strip()


def call_text(call: ToolCall) -> str:
    """Return a call and its result on one line, such as ``find(image, 'cup') -> nothing``."""
    arguments = [_value(value) for value in call.args]
    arguments += [f"{name}={_value(value)}" for name, value in call.kwargs.items()]
    result = f"failed: {call.error}" if call.error else _value(call.result) or "nothing"
    if call.rejected_by and call.scores:
        result += f" (the best candidate scored {call.scores[0]:.2f}, which is too low)"
    return f"{call.tool}({', '.join(arguments)}) -> {result}"


def _problem(failed: FailedProgram, entries: Sequence[ApiEntry]) -> str:
    failure = failed.failure
    if failure.kind in _WITHOUT_PROGRAM:
        return f"There was no program to run: {failure.message}."
    line = f" in line {failure.line}" if failure.line is not None else ""
    source = f": `{failure.source_line.strip()}`" if failure.source_line else ""
    error = f"{failure.exception}: {failure.message}" if failure.exception else failure.message
    problem = f"It failed{line}{source}.\n{error}" if line else error
    if failure.kind == "below_threshold":
        place = failure.call_index
        call = next((each for each in failed.calls if each.index == place), None)
        nothing = f"{failure.tool} found nothing" if call is None else call_text(call)
        problem += (
            f"\nThe reason: {nothing}, also when less sure results were allowed. Ask for it by "
            "another name, or answer without it."
        )
    if failure.kind == "forbidden":
        problem += f"\nOnly these modules can be imported: {MODULE_NAMES}."
    if failure.exception in ("AttributeError", "NameError"):
        names = [f"{each.owner}.{each.name}" if each.owner else each.name for each in entries]
        problem += f"\nThe names that can be called: {', '.join(names)}."
    return problem


def _value(value: Any) -> str:
    """Return a JSON value of a call's log as a program would see it; "" for None and nothing."""
    if isinstance(value, Mapping):
        if "fields" not in value:
            return f"<{value.get('kind', 'value')}>"
        sides = [item for item in value["fields"][1:5] if isinstance(item, int | float)]
        numbers = ", ".join(f"{float(side):g}" for side in sides)
        return f"{value['kind']}({numbers})" if value["kind"] in ("patch", "segment") else "image"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"[:_MAX_VALUE] if value else ""
    return "" if value is None else repr(value)[:_MAX_VALUE]
