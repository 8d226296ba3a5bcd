"""Says what went wrong with earlier programs, in words that help their writer.

:func:`feedback_text` is the message after a failed program in chat prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.api.sets import ApiEntry
from viper.prompting.template import MODULE_NAMES, fill
from viper.schema import Failure, ToolCall

# Greatest number of calls in a feedback, the last ones: the failure is near the end, and a loop
# over objects would fill the prompt.
MAX_CALLS = 12

# A value is shown to be recognised, not read: the length of about one line.
_MAX_VALUE = 120
# Failures of a reply that held no program to run; ``truncated`` ones hold part of one.
_WITHOUT_PROGRAM = ("refusal", "truncated", "no_program")


@dataclass(frozen=True)
class FailedProgram:
    """An earlier program for the same query and the reason why it gave no answer.

    Attributes:
        program: its code; "" if the reply held none.
        calls: the tool calls that it made.
        stdout: the text that it printed.
        reply: the whole reply of the writer, shown where it held no program.
        earlier: programs that failed before this one, oldest first.
        repeated: the writer wrote this very program before.
    """

    program: str
    failure: Failure
    calls: Sequence[ToolCall] = ()
    stdout: str = ""
    reply: str = ""
    earlier: Sequence[FailedProgram] = ()
    repeated: bool = False


def feedback_text(failed: FailedProgram, entries: Sequence[ApiEntry]) -> str:
    """Return what went wrong, the calls with their results, and what is allowed.

    Args:
        entries: the names that a program may call.
    """
    failure = failed.failure
    line = f" in line {failure.line}" if failure.line is not None else ""
    source = f": `{failure.source_line.strip()}`" if failure.source_line else ""
    error = f"{failure.exception}: {failure.message}" if failure.exception else failure.message
    problem = f"It failed{line}{source}.\n{error}" if line else error
    if failure.kind in _WITHOUT_PROGRAM:
        problem = f"There was no program to run: {failure.message}."
    elif failure.kind == "below_threshold":
        place = failure.call_index
        call = next((each for each in failed.calls if each.index == place), None)
        nothing = f"{failure.tool} found nothing" if call is None else call_text(call)
        problem += (
            f"\nThe reason: {nothing}, also when less sure results were allowed. Ask for it by "
            "another name, or answer without it."
        )
    elif failure.kind == "forbidden":
        problem += f"\nOnly these modules can be imported: {MODULE_NAMES}."
    if failure.exception in ("AttributeError", "NameError"):
        names = [f"{each.owner}.{each.name}" if each.owner else each.name for each in entries]
        problem += f"\nThe names that can be called: {', '.join(names)}."
    calls = "\n".join(f"- {call_text(call)}" for call in failed.calls[-MAX_CALLS:])
    calls = f"\nThe calls it made, with their results:\n{calls}\n" if calls else ""
    return fill("feedback_chat", {"problem": problem, "calls": calls}).strip()


def call_text(call: ToolCall) -> str:
    """Return a call and its result on one line, such as ``find(image, 'cup') -> nothing``."""
    arguments = [_value_text(value) for value in call.args]
    arguments += [f"{name}={_value_text(value)}" for name, value in call.kwargs.items()]
    result = f"failed: {call.error}" if call.error else _value_text(call.result) or "nothing"
    if call.rejected_by and call.scores:
        result += f" (the best candidate scored {call.scores[0]:.2f}, which is too low)"
    return f"{call.tool}({', '.join(arguments)}) -> {result}"


def _value_text(value: Any) -> str:
    """Return a JSON value of a call's log as a program would see it; "" for None and nothing."""
    if isinstance(value, Mapping):
        if "fields" not in value:
            return f"<{value.get('kind', 'value')}>"
        sides = [item for item in value["fields"][1:5] if isinstance(item, int | float)]
        numbers = ", ".join(f"{float(side):g}" for side in sides)
        return f"{value['kind']}({numbers})" if value["kind"] in ("patch", "segment") else "image"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value_text, value))}]"[:_MAX_VALUE] if value else ""
    return "" if value is None else repr(value)[:_MAX_VALUE]
