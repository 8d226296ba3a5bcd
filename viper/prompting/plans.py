"""Plans: the prompt that asks for one, what is read out of the reply, the prompt that follows it.

A plan is numbered steps in words, one a line. Demonstrations of both kinds stand in both prompts:
those that worked, and those that did not, each with the reason.

The compact style is for small writers that were trained on it; it lists no names of the API, since
a plan says in words what the program does by name. The planner goes on after the last line::

    # task: {task}                  for each plan that worked
    # query: {query}
    # options: {a; b; c}            only where there are options
    # plan:
    {1. step}                       one a line
                                    one blank line after each
    # task: {task}                  for each that did not
    # query: {query}
    # wrong: {1. step 2. step}
    # why: {critique}

    # task: {task}                  the query to plan
    # query: {query}
    # plan:

Source: CLOVA (Gao et al. 2024), sec. 3.2, and its supplement, sec. 7; the words are ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from viper.api.sets import ApiEntry
from viper.api.spec import render
from viper.errors import UnknownNameError
from viper.prompting.builder import (
    STYLES,
    Feedback,
    chat_query,
    fill,
    media_words,
    plan_comment,
    program_prompt,
)
from viper.prompting.compact import (
    END_OF_PROGRAM,
    compact_asked,
    compact_document,
    compact_failure,
    compact_query,
    one_line,
)
from viper.schema import Example, Query

MOST_STEPS = 20
LONGEST_STEP = 400

PLAN_STOP: dict[str, tuple[str, ...]] = {
    "full": ("\n\n",),
    "chat": (),
    "compact": (END_OF_PROGRAM,),
}
"""Where a planner stops, by style of prompt: a model that goes on would write the next query."""

_ANSWERS = {
    "ground": "the one patch that the query describes",
    "question": "a word or a few, a number, or yes or no",
    "choice": "one of the possible answers",
    "statement": "whether the statement holds",
    "edit": "the changed picture",
    "tag": "pairs of a name and a patch",
}
_STEP = re.compile(
    r"^\s*(?:[-*#>]+\s*)?[*_]{0,2}(?:step\s*)?(\d{1,2})\s*[.):,][*_]{0,2}\s*(\S.*)$", re.IGNORECASE
)
_BULLET = re.compile(r"^\s*[-*+•–]\s+")
_ENDS = re.compile(r"^\s*(?:#+\s|query\s*:|program\s*:|```|~~~|def\s+\w+\s*\()", re.IGNORECASE)
_PROGRAM = re.compile(r"^\s*def\s+\w+\s*\(", re.MULTILINE)


def numbered(*steps: str) -> str:
    """Steps as a plan: ``1. …``, one a line; ends without a newline."""
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


def build_plan_prompt(
    query: Query,
    entries: Sequence[ApiEntry],
    correct: Sequence[Example] = (),
    incorrect: Sequence[Example] = (),
    *,
    style: str = "chat",
) -> str:
    """The prompt that asks for a plan.

    Args:
        query: its task is resolved (not ``auto``).
        entries: the names that the program may call.
        correct: with plans that worked, shown in this order.
        incorrect: with plans that did not, and their critique.
        style: ``chat`` for a model that follows instructions; ``full`` for one that continues a
            text, whose prompt ends with the number of the first step; ``compact`` for a small
            planner that was trained on it.

    Raises:
        UnknownNameError: another style.
    """
    if style not in PLAN_STOP:
        raise UnknownNameError("style of a planner's prompt", style, PLAN_STOP)
    if style == "compact":
        shown = "".join(
            compact_plan(query.task, one.query, one.plan or "", one.options) for one in correct
        )
        shown += "".join(
            compact_wrong_plan(
                query.task, one.query, one.plan or "", one.critique or "", one.options
            )
            for one in incorrect
        )
        return shown + compact_plan_asked(query.task, query.text, query.options)
    shown = _section("Plans that worked", map(_plan_shown, correct))
    shown += _section("Plans that did not work, and why", map(_plan_shown, incorrect))
    tools = "\n".join(line.removeprefix("# ") for line in render(entries, "compact").splitlines())
    values = {
        "media": media_words(query),
        "tools": tools,
        "demonstrations": shown,
        "most": str(MOST_STEPS),
        "answer": _ANSWERS.get(query.task, "what the query asks for"),
        "query": chat_query(query),
    }
    return fill("plan", values) + ("\n1." if style == "full" else "")


def build_planned_prompt(
    query: Query,
    entries: Sequence[ApiEntry],
    plan: str,
    correct: Sequence[Example] = (),
    incorrect: Sequence[Example] = (),
    *,
    style: str = "chat",
    feedback: Feedback | None = None,
    lines: bool = False,
) -> str:
    """The prompt that asks for the program of a plan; otherwise as ``build_prompt``.

    The compact style shows no incorrect examples: its writers copy what they are shown.

    Raises:
        UnknownNameError: for a style that does not exist.
    """
    if style == "compact":
        failed = ""
        if feedback is not None:
            failed = compact_failure(feedback.failure.kind, feedback.failure.message)
        return compact_document(
            entries, query.task, correct, query.text, query.options, failed, plan
        )
    if style not in STYLES:
        raise UnknownNameError("prompt style", style, STYLES)
    head = "## {}" if style == "chat" else "# {}"
    show = _in_fence if style == "chat" else _as_comments
    shown = _section("Solved queries", map(show, correct), head)
    shown += _section("Programs that did not work, and why", map(show, incorrect), head)
    if shown and style == "full":
        shown += "\n"
    return program_prompt(
        query, entries, shown, style=style, feedback=feedback, plan=plan, lines=lines
    )


def compact_plan_asked(task: str, query: str, options: Sequence[str] = ()) -> str:
    """All lines before a plan in the compact style."""
    return f"{compact_asked(task, query, options)}# plan:\n"


def compact_plan(task: str, query: str, plan: str, options: Sequence[str] = ()) -> str:
    """A planned query in the compact style, with the blank line that ends it."""
    steps = "\n".join(line.strip() for line in plan.splitlines() if line.strip())
    return compact_plan_asked(task, query, options) + steps + END_OF_PROGRAM


def compact_wrong_plan(
    task: str, query: str, plan: str, critique: str, options: Sequence[str] = ()
) -> str:
    """A plan that did not work in the compact style, with why, and the blank line that ends it."""
    asked = compact_asked(task, query, options)
    return f"{asked}# wrong: {one_line(plan)}\n# why: {one_line(critique)}{END_OF_PROGRAM}"


def read_plan(reply: str) -> str:
    """The plan in a planner's reply: numbered steps, one a line; "" where there is none.

    Understands thoughts before it, words around it, ``Step 1:`` and bold numbers, steps that go on
    in the next line, a first number that the prompt has said already, and steps that were not
    numbered at all. What follows the plan, another query or a program, is left out.
    """
    text = reply.rpartition("</think>")[2].replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    steps = _numbered(lines) or _unnumbered(lines, text)
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


def _numbered(lines: Sequence[str]) -> list[str]:
    steps: list[str] = []
    open_step = False
    for place, line in enumerate(lines):
        found = _STEP.match(line)
        if not steps and not found and place == 0 and _continues_prompt(lines):
            found = _STEP.match(f"1. {line}")
        if found and int(found[1]) == len(steps) + 1:
            steps.append(found[2])
            open_step = True
        elif steps and (_ENDS.match(line) or (found and int(found[1]) == 1)):
            break
        elif not line.strip():
            open_step = False
        elif open_step:
            steps[-1] += " " + _BULLET.sub("", line)
    return list(filter(None, map(_plain, steps[:MOST_STEPS])))


def _continues_prompt(lines: Sequence[str]) -> bool:
    """Whether the first line is a first step whose number the prompt ended with."""
    numbers = [int(found[1]) for found in map(_STEP.match, lines) if found]
    goes_on = numbers[:1] == [2] or (not numbers and lines[0].startswith(" "))
    return goes_on and bool(lines[0].strip())


def _unnumbered(lines: Sequence[str], text: str) -> list[str]:
    if _PROGRAM.search(text):
        return []
    steps = [_BULLET.sub("", line) for line in lines if not _ENDS.match(line)]
    return list(filter(None, map(_plain, steps)))[:MOST_STEPS]


def _plain(step: str) -> str:
    """A step on one line, without what a terminal would obey; "" where it says nothing."""
    shown = "".join(letter for letter in one_line(step) if letter.isprintable())
    said = shown.strip(" *_")[:LONGEST_STEP]
    return said if any(letter.isalpha() for letter in said) else ""


def _section(title: str, shown: Sequence[str] | map[str], head: str = "## {}") -> str:
    texts = list(shown)
    return "\n\n".join([head.format(title), *texts]) + "\n\n" if texts else ""


def _plan_shown(example: Example) -> str:
    options = f"\nPossible answers: {'; '.join(map(one_line, example.options))}"
    return (
        f"Query: {one_line(example.query)}{options if example.options else ''}\n"
        f"{(example.plan or '').strip()}{_why(example)}"
    )


def _program_shown(example: Example) -> str:
    asked = compact_query(example.query, example.options)
    return asked + plan_comment(example.plan) + example.program.strip("\n")


def _in_fence(example: Example) -> str:
    return f"```python\n{_program_shown(example)}\n```{_why(example)}"


def _as_comments(example: Example) -> str:
    return _program_shown(example) + _why(example, "# ")


def _why(example: Example, mark: str = "") -> str:
    return f"\n{mark}Why it fails: {one_line(example.critique)}" if example.critique else ""
