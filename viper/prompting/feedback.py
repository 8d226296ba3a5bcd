"""Says what went wrong with earlier programs, in words that help their writer.

:func:`feedback_text` is the message after a failed program in chat prompts: the error with a hint
(:func:`hint_at`), the text that the program printed, its calls, and the failures before it.

A hint is made from the typed failure, the syntax tree of the program and the names of the API,
never from the text of an error.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import groupby
from typing import Any

from viper.api.prelude import READABLE
from viper.api.runtime import ImageHandle, VideoHandle
from viper.api.sets import OWNERS, ApiEntry
from viper.api.spec import entry_text
from viper.prompting.compact import one_line
from viper.prompting.extract import ENTRY, syntax_tree
from viper.prompting.template import fill
from viper.sandbox.backward_slice import feeding_lines
from viper.sandbox.entry import ANSWER_NAMES
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
# Characters of an earlier failure and of a call: hostile programs write long lines.
_MOST_EARLIER, _MOST_CALL = 2_000, 400
# Characters of the longest program that is searched for hints: that takes the square of them.
_MOST_HINTED = 8_000
# Failures of a reply that held no program to run; ``truncated`` ones hold part of one.
_WITHOUT_PROGRAM = ("refusal", "truncated", "no_program")
# Errors of a call whose arguments do not fit.
_OF_ARGUMENTS = ("TypeError", "ValueError", "ToolError")
# Errors of an empty list, and of a text that is no number.
_OF_NOTHING = ("IndexError", "ZeroDivisionError", "ValueError", "StopIteration", "StatisticsError")
# Functions of a program, and lines that set the answer of a script.
_DEFINED = re.compile(r"^def (\w+)", re.M)
_ANSWERS = re.compile(rf"^(?:{'|'.join(ANSWER_NAMES)})\s*=|^\w+\s*=\s*[A-Z_]+\(", re.M)

# Attributes of the API's classes that are values, by class.
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    kind.__name__: tuple(n for n in vars(kind) if n in own and isinstance(vars(kind)[n], property))
    for kind, own in READABLE.items()
    if kind in OWNERS
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


def feedback_text(
    failed: FailedProgram, entries: Sequence[ApiEntry], *, corrects: bool = False
) -> str:
    """Return what went wrong, with hints, printed text, calls and earlier failures.

    Args:
        entries: the names that a program may call.
        corrects: ask for a correction of the failed program, instead of for another one.

    Source: Stanić et al. 2024, A.3, for corrections. Differs: hints, printed text and calls are
    added, because an error's words alone seldom say what to change.
    """
    failure, problem = failed.failure, _problem(failed)
    if failed.repeated:
        problem = f"You wrote the same program again, and it fails again. {problem}"
    hints = hint_at(failure, failed.program, entries, failed.calls)
    problem = "\n".join([problem, *hints])
    parts = []
    if printed := failed.stdout.strip():
        parts.append(f"It printed:\n{printed[-_MAX_PRINTED:]}")
    if failed.calls:
        stated = failure.call_index
        texts = [
            call_text(replace(c, error=c.error and "see above") if c.index == stated else c)
            for c in failed.calls
        ]
        rows = [(text, len([*same])) for text, same in groupby(texts)][-MAX_CALLS:]
        lines = (f"\n- {text}" + (f" ({n} times)" if n > 1 else "") for text, n in rows)
        parts.append(f"The calls it made, with their results:{''.join(lines)}")
    if failed.earlier:
        texts = [_earlier_text(number, each) for number, each in enumerate(failed.earlier, 1)]
        parts.append("\n\n".join(["Programs before it failed too; do not repeat them.", *texts]))
    calls = "".join(f"\n{part}\n" for part in parts)
    name = "feedback_chat_whole" if corrects and failed.program.strip() else "feedback_chat"
    return fill(name, {"problem": problem, "calls": calls}).strip()


def _problem(failed: FailedProgram) -> str:
    """Return the failure and its place in words."""
    failure, program, message = failed.failure, failed.program, failed.failure.message
    line = f" in line {failure.line}" if failure.line is not None else ""
    source = f": `{_short(failure.source_line.strip())}`" if failure.source_line else ""
    if failure.kind in _WITHOUT_PROGRAM:
        return f"There was no program to run: {re.sub(r'[`~]{3,}', '', message)}."
    defined, opening = _DEFINED.findall(program), f"It failed{line}{source}."
    if failure.kind == "forbidden" and failure.name:  # without the list of all builtins
        message = f"{failure.name} is not available to programs"
    elif failure.kind == "return_type" and ENTRY not in defined and not _ANSWERS.search(program):
        rename = f"; rename `{'` or `'.join(defined)}` to {ENTRY}" if defined else ""
        message = f"The program must define `{ENTRY}` outside of classes{rename}"
    elif failure.kind == "wrong_answer" or (
        failure.kind in ("return_type", "wrong_type") and _answers(program)
    ):
        opening = "Its answer was not accepted."
    error = f"{failure.exception}: {message}" if failure.exception else message
    problem = f"{opening}\n{error[:1].upper()}{error[1:].rstrip('.')}."
    if failure.kind == "below_threshold":
        problem += f"\n`{failure.tool}` found nothing, also when less sure results were allowed."
        problem += " Ask for it by another name, or answer without it."
    return problem


def _answers(program: str) -> bool:
    """Return whether a program returns or sets an answer."""
    body = program.rpartition(f"def {ENTRY}(")[2]
    return _ANSWERS.search(body.replace("return ", "\nanswer=")) is not None


def _earlier_text(number: int, failed: FailedProgram) -> str:
    lines = failed.as_reply.splitlines()
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], "…", *lines[-1:]]
    text = "\n".join([f"{number}. {one_line(_problem(failed))}", *lines])
    return text[:_MOST_EARLIER]


def hint_at(
    failure: Failure, program: str, entries: Sequence[ApiEntry], calls: Sequence[ToolCall] = ()
) -> list[str]:
    """Return sentences that help to mend a program; none for one that is too long or too deep.

    Args:
        program: the code that failed.
        entries: the names that it may call.
        calls: the tool calls that it made.
    """
    if len(program) > _MOST_HINTED:
        return []
    try:
        return list(_hints_at(failure, program, entries, calls))
    except RecursionError:  # an expression that is too deep to print
        return []


def _hints_at(
    failure: Failure, program: str, entries: Sequence[ApiEntry], calls: Sequence[ToolCall]
) -> Iterator[str]:
    tree, owner = syntax_tree(program), failure.owner or ""
    by_name = {entry.name: entry for entry in entries}
    nodes = [*ast.walk(tree)] if tree else []
    called = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    uses = [
        node
        for node in nodes
        if isinstance(node, ast.Attribute | ast.Name)
        and node.lineno <= (failure.line or 0) <= (node.end_lineno or 0)
    ]
    if sum(isinstance(node, ast.FunctionDef) and node.name == ENTRY for node in nodes) > 1:
        yield f"It defines {ENTRY} twice; only the last definition counts."
    hints, lines = dict[str, None](), frozenset[int]()
    if tree and failure.kind == "runtime" and failure.exception in _OF_NOTHING:
        lines = feeding_lines(tree, failure.line, failure.function)
    is_number = any(getattr(node, "id", "") in ("int", "float") for node in uses)
    other = ", or read a number with `coerce_to_numeric`" * ("coerce_to_numeric" in by_name)
    count = f"Count found objects with `len(image_patch.find(...))`{other}."
    for call in (call for call in calls if call.line in lines):
        words = ", ".join(repr(word) for word in call.args if isinstance(word, str))
        if call.result == []:
            hints[f"`{call.tool}({words})` found nothing; check for an empty list first."] = None
        elif isinstance(call.result, str) and is_number:
            hints[f"The text was {call.result[:_MAX_VALUE]!r}. {count}"] = None
    # An attribute that the line does not name is missing inside a function that the line calls.
    is_inside = owner and not any(getattr(n, "attr", "") == failure.name for n in uses)
    if hints or failure.kind == "forbidden":
        yield from hints
    elif failure.name is None or is_inside or owner in ("method", "function"):
        yield from _call_hints(failure, uses, called, by_name)
    elif owner == "NoneType":
        yield from _none_hints(failure.name, uses, nodes)
    else:
        variables = [node.id for node in nodes if isinstance(node, ast.Name)]
        yield from _name_hint(failure.name, owner, variables, entries)
        if attributes := ATTRIBUTES.get(owner):
            methods = [entry.name for entry in entries if entry.owner == owner]
            yield f"Attributes of {owner}: {', '.join(attributes)}."
            yield f"Its methods: {', '.join(methods) or 'none'}."


def _name_hint(
    name: str, owner: str, names: Sequence[str], entries: Sequence[ApiEntry]
) -> Iterator[str]:
    """Yield what may be meant by a name that an object, or the program, does not have.

    Args:
        owner: the type of the object; "" for a variable.
        names: the variables of the program.
    """
    entry = next((entry for entry in entries if entry.name == name), None)
    home = next((kind.__name__ for kind, own in READABLE.items() if name in own), "")
    known = [*ATTRIBUTES.get(owner, ()), *(each.name for each in entries if each.owner == owner)]
    if not owner:
        known = [*(each for each in names if each != name), *(each.name for each in entries)]
    if owner in _MADE_OF:
        yield f"`{owner}` has no such attribute; ask `{_MADE_OF[owner]}({owner})` instead."
    elif entry is not None and entry.owner != owner:
        kind = f"a method of {entry.owner}" if entry.owner else "a function, not a method"
        yield f"`{name}` is {kind}: `{_signature(entry)}`."
    elif home and owner:
        yield f"`{name}` belongs to {home}, and this is of type {owner}."
    elif not owner and (statement := import_of(name)):
        yield f"Write `{statement}` before it is used."
    elif near := get_close_matches(name, known, 1):
        yield f"Did you mean `{near[0]}`?"
    elif not owner:
        classes = dict.fromkeys(each.owner for each in entries if each.owner)
        every = (f"{each.owner}.{each.name}" if each.owner else each.name for each in entries)
        yield f"The names that can be called: {', '.join([*classes, *every])}."


def _none_hints(name: str, uses: Sequence[ast.AST], nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield which value of the failing line is None, and the helper, loop or line behind it."""
    for use in (node for node in uses if isinstance(node, ast.Attribute) and node.attr == name):
        value, helper, search = ast.unparse(use.value), "", ""
        made, origin = [value], ""
        for node in nodes:
            if isinstance(node, ast.Assign) and value in map(ast.unparse, node.targets):
                made.append(ast.unparse(node.value))
                origin = f" It comes from line {node.lineno}: `{_short(made[-1])}`."
        for node in nodes:
            text, place = ast.unparse(node), f"in line {getattr(node, 'lineno', 0)}"
            maker = node.name if isinstance(node, ast.FunctionDef) else ""
            if maker and any(each.startswith(f"{maker}(") for each in made):
                helper = f": `{maker}` {place} returns nothing on some path (missing `return`)."
            is_around = "None" in made and f" {value} = " in text
            is_around = is_around or any(text in each for each in made)
            if isinstance(node, ast.For | ast.comprehension) and is_around:
                place = f"`{_short(ast.unparse(node.iter))}` in line {node.iter.lineno}"
                search = f": nothing in {place} fitted. Choose in another way."
        origin = f".{origin} Check it before it is used, with `is None`."
        yield f"`{_short(value)}` is None{helper or search or origin}"


def _call_hints(
    failure: Failure,
    uses: Sequence[ast.AST],
    called: Mapping[Any, ast.Call],
    by_name: Mapping[str, ApiEntry],
) -> Iterator[str]:
    """Yield how the names of the failing line are called, and the signatures of its calls."""
    values = {name for names in ATTRIBUTES.values() for name in names}
    signatures, misfits = dict[str, None](), list[str]()
    for node in uses:
        name = getattr(node, "attr", getattr(node, "id", ""))
        if node in called and name in values and name != failure.name:
            yield f"`{name}` is a value, not a method: write it without parentheses."
        elif node in called and name in by_name:
            signatures[_signature(by_name[name])] = None
            args = [] if by_name[name].owner else called[node].args
            misfits += [ast.unparse(each) for each in args if isinstance(each, ast.Constant)]
        elif isinstance(node, ast.Attribute) and name in by_name:
            yield f"`{name}` is a method: call it, as in `{_signature(by_name[name])}`."
        elif name in ("sorted", "min", "max") and failure.exception == "TypeError":
            yield f"`{name}` compares patches by a key, such as `key=lambda patch: patch.left`."
    if signatures and (failure.owner or failure.exception in _OF_ARGUMENTS):
        yield f"What the line calls: `{'`, `'.join(signatures)}`."
    if failure.owner == "str" and misfits:
        yield f"These arguments must be no text: `{'`, `'.join(misfits)}`."


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
    return f"{call.tool}({', '.join(arguments)}) -> {result}"[:_MOST_CALL]


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
