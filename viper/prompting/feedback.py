"""Says what went wrong with earlier programs, in words that help their writer.

:func:`feedback_text` is the message after a failed program in chat prompts: the error with a hint
(:func:`hint_at`), the text that the program printed, its calls, and the failures before it.

A hint is made from the typed failure, the syntax tree of the program and the names of the API,
never from the text of an error.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from viper.api.prelude import READABLE
from viper.api.runtime import ImageHandle, VideoHandle
from viper.api.sets import OWNERS, ApiEntry
from viper.api.spec import entry_text
from viper.prompting.compact import one_line
from viper.prompting.extract import ENTRY, syntax_tree
from viper.prompting.template import MODULE_NAMES, fill
from viper.sandbox.modules import import_of
from viper.schema import Failure, ToolCall

# Greatest number of calls in a feedback, the last ones: the failure is near the end, and a loop
# over objects would fill the prompt.
MAX_CALLS = 12

# A value is shown to be recognised, not read: the length of about one line.
_MAX_VALUE = 120
# Printed text is shown from its end, where an error is that the program caught.
_MAX_PRINTED = 800
# Lines of an earlier program: enough to recognise it. All earlier programs are shown.
_MAX_LINES = 12
# Failures of a reply that held no program to run; ``truncated`` ones hold part of one.
_WITHOUT_PROGRAM = ("refusal", "truncated", "no_program")
# Errors of a call whose arguments do not fit.
_OF_ARGUMENTS = ("TypeError", "ValueError", "ToolError")

# Attributes of the API's classes that are values, by class.
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    owner.__name__: tuple(
        name
        for name, member in vars(owner).items()
        if isinstance(member, property) and name in READABLE[owner]
    )
    for owner in OWNERS
}
# Names of the API's objects in calls and results, by the kind of their references.
CLASSES = {"patch": "ImagePatch", "segment": "VideoSegment"}
# Classes to make of a query's picture and video.
_MADE_OF = {ImageHandle.__name__: "ImagePatch", VideoHandle.__name__: "VideoSegment"}


@dataclass(frozen=True)
class FailedProgram:
    """An earlier program for the same query and the reason why it gave no answer.

    Attributes:
        program: its code; "" if the reply held none.
        calls: the tool calls that it made.
        stdout: the text that it printed.
        reply: the writer's own words if they held no program.
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

    @property
    def as_reply(self) -> str:
        """Return the reply as a conversation shows it to its writer."""
        program = self.program.strip()
        return f"```python\n{program}\n```" if program else self.reply.strip() or "(no program)"


def feedback_text(failed: FailedProgram, entries: Sequence[ApiEntry]) -> str:
    """Return what went wrong, with hints, printed text, calls and earlier failures.

    Args:
        entries: the names that a program may call.
    """
    failure, problem = failed.failure, _problem(failed)
    if failed.repeated:
        problem = f"You wrote the same program again, and it fails again. {problem}"
    if failure.kind == "forbidden":
        problem += f"\nOnly these modules can be imported: {MODULE_NAMES}."
    problem += "".join(f"\n{hint}" for hint in hint_at(failure, failed.program, entries))
    parts = []
    if printed := failed.stdout.strip():
        parts.append(f"It printed:\n{printed[-_MAX_PRINTED:]}")
    if failed.calls:
        calls = "\n".join(
            f"- {call_text(replace(call, error=call.error and 'see above'))}"
            if call.index == failure.call_index
            else f"- {call_text(call)}"
            for call in failed.calls[-MAX_CALLS:]
        )
        parts.append(f"The calls it made, with their results:\n{calls}")
    if failed.earlier:
        texts = [_earlier_text(number, each) for number, each in enumerate(failed.earlier, 1)]
        parts.append("\n\n".join(["Programs before it failed too; do not repeat them.", *texts]))
    calls = "".join(f"\n{part}\n" for part in parts)
    return fill("feedback_chat", {"problem": problem, "calls": calls}).strip()


def _problem(failed: FailedProgram) -> str:
    """Return the failure and its place in words."""
    failure = failed.failure
    line = f" in line {failure.line}" if failure.line is not None else ""
    source = f": `{failure.source_line.strip()}`" if failure.source_line else ""
    error = f"{failure.exception}: {failure.message}" if failure.exception else failure.message
    if failure.kind in _WITHOUT_PROGRAM:
        return f"There was no program to run: {failure.message}."
    problem = f"It failed{line}{source}.\n{error}" if line else error
    if failure.kind == "below_threshold":
        place = failure.call_index
        call = next((each for each in failed.calls if each.index == place), None)
        nothing = f"{failure.tool} found nothing" if call is None else call_text(call)
        problem += (
            f"\nThe reason: {nothing}, also when less sure results were allowed. Ask for it by "
            "another name, or answer without it."
        )
    return problem


def _earlier_text(number: int, failed: FailedProgram) -> str:
    lines = failed.as_reply.splitlines()
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], "…", *lines[-1:]]
    return "\n".join([f"{number}. {one_line(_problem(failed))}", *lines])


def hint_at(failure: Failure, program: str, entries: Sequence[ApiEntry]) -> Iterator[str]:
    """Yield sentences that help to mend a program.

    Args:
        program: the code that failed.
        entries: the names that it may call.
    """
    nodes = [node for tree in [syntax_tree(program)] if tree for node in ast.walk(tree)]
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    uses = [
        node
        for node in nodes
        if isinstance(node, ast.Attribute | ast.Name)
        and node.lineno <= (failure.line or 0) <= (node.end_lineno or 0)
    ]
    if sum(isinstance(node, ast.FunctionDef) and node.name == ENTRY for node in nodes) > 1:
        yield f"It defines {ENTRY} twice; only the last definition counts."
    if failure.name is None:
        yield from _call_hints(failure, uses, calls, {entry.name: entry for entry in entries})
    elif failure.owner == "NoneType":
        yield from _none_hints(failure.name, uses, nodes)
    else:
        names = [node.id for node in nodes if isinstance(node, ast.Name)]
        yield _name_hint(failure.name, failure.owner or "", names, entries)
        if values := ATTRIBUTES.get(failure.owner or ""):
            methods = [entry.name for entry in entries if entry.owner == failure.owner]
            yield f"Attributes of {failure.owner}: {', '.join(values)}."
            yield f"Its methods: {', '.join(methods) or 'none'}."


def _name_hint(name: str, owner: str, names: Sequence[str], entries: Sequence[ApiEntry]) -> str:
    """Return what may be meant by a name that an object, or the program, does not have.

    Args:
        owner: the type of the object; "" for a variable.
        names: the variables of the program.
    """
    entry = next((entry for entry in entries if entry.name == name), None)
    home = next((kind.__name__ for kind, own in READABLE.items() if name in own), "")
    known = [*ATTRIBUTES.get(owner, ()), *(each.name for each in entries if each.owner == owner)]
    if not owner:
        known = [*(each for each in names if each != name), *(each.name for each in entries)]
    near = get_close_matches(name, known, 1)
    if owner in _MADE_OF:
        return f"`{owner}` has no such attribute; ask `{_MADE_OF[owner]}({owner})` instead."
    if owner in ("method", "function"):
        return "That is a method which was not called; call it with parentheses."
    if entry is not None and entry.owner != owner:
        kind = f"a method of {entry.owner}" if entry.owner else "a function, not a method"
        return f"`{name}` is {kind}: `{_signature(entry)}`."
    if home and owner:
        return f"`{name}` belongs to a {home}, and this is a {owner}."
    if not owner and (statement := import_of(name)):
        return f"Write `{statement}` before it is used."
    if near or owner:
        return f"There is no `{name}`" + "".join(f"; did you mean `{each}`?" for each in near)
    every = (f"{each.owner}.{each.name}" if each.owner else each.name for each in entries)
    return f"The names that can be called: {', '.join(every)}."


def _none_hints(name: str, uses: Sequence[ast.AST], nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield which value of the failing line is None, and the line that it comes from."""
    for use in (node for node in uses if isinstance(node, ast.Attribute) and node.attr == name):
        value, origin = ast.unparse(use.value), ""
        for node in nodes:
            if isinstance(node, ast.Assign) and value in map(ast.unparse, node.targets):
                origin = f" It comes from line {node.lineno}: `{_short(ast.unparse(node.value))}`."
        yield f"`{_short(value)}` is None.{origin} Check it before it is used, with `is None`."


def _call_hints(
    failure: Failure,
    uses: Sequence[ast.AST],
    calls: Sequence[ast.AST],
    by_name: Mapping[str, ApiEntry],
) -> Iterator[str]:
    """Yield how the names of the failing line are called, and the signatures of its calls."""
    values = {name for names in ATTRIBUTES.values() for name in names}
    signatures = dict[str, None]()
    for node in uses:
        name = getattr(node, "attr", getattr(node, "id", ""))
        if node in calls and name in values:
            yield f"`{name}` is a value, not a method: write it without parentheses."
        elif node in calls and name in by_name:
            signatures[_signature(by_name[name])] = None
        elif isinstance(node, ast.Attribute) and name in by_name:
            yield f"`{name}` is a method: call it, as in `{_signature(by_name[name])}`."
        elif name in ("sorted", "min", "max") and failure.exception == "TypeError":
            yield f"`{name}` compares patches by a key, such as `key=lambda patch: patch.left`."
    if signatures and failure.exception in _OF_ARGUMENTS:
        yield f"What the line calls: `{'`, `'.join(signatures)}`."


def _signature(entry: ApiEntry) -> str:
    """Return how a name is called, such as ``exists(object_name: str) -> bool``."""
    text = entry_text(entry, "full").partition(":\n")[0].removeprefix("def ")
    return text.replace("(self, ", "(").replace("(self)", "()")


def _short(text: str) -> str:
    return one_line(text)[:_MAX_VALUE]


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
        kind = CLASSES.get(value["kind"])
        return f"{kind}({numbers})" if kind else "image"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value_text, value))}]"[:_MAX_VALUE] if value else ""
    return "" if value is None else repr(value)[:_MAX_VALUE]
