"""Plans: the prompt that asks for a plan, and the parser of the reply.

A plan is a list of numbered steps in words, one step per line. The prompt
(:func:`build_plan_prompt`) shows both kinds of demonstrations: those that worked, and those that
did not, each with the reason. :func:`read_plan` reads the reply, and
:func:`viper.prompting.builder.build_prompt` asks for the program of the plan.

The compact style is for small planners that were trained on it. It lists no names of the API,
because a plan describes in words the calls that the program makes. The planner continues the last
line::

    # task: {task}                  for each plan that worked
    # query: {query}
    # options: {a; b; c}            only if there are options
    # plan:
    {1. step}                       one per line
                                    one blank line after each plan
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
from typing import Any

from viper.api.sets import ApiEntry
from viper.api.spec import render
from viper.errors import UnknownNameError
from viper.models.llm.messages import Prompt
from viper.models.llm.replies import json_parts, without_reasoning
from viper.prompting.builder import chat_query, is_open_video, media_words, why_text
from viper.prompting.compact import END_OF_PROGRAM, compact_request, one_line
from viper.prompting.replies import is_refusal
from viper.prompting.template import fill, fill_turns
from viper.schema import Example, Query

# A program of more steps would not fit a reply, and a step is one sentence; longer plans repeat
# themselves or hold other text.
MOST_STEPS = 20
LONGEST_STEP = 400

# Stop strings of a planner by style of prompt; without them it would write the next query.
PLAN_STOP: dict[str, tuple[str, ...]] = {
    "full": ("\n\n",),
    "chat": (),
    "compact": (END_OF_PROGRAM,),
}

_STEP = re.compile(
    r"^\s*(?:[-*#>]+\s+)?(?P<bold>[*_]{0,2})(?:step\s*)?(?P<number>\d{1,2})\s*[.):,](?P=bold)?\s*"
    r"(?P<text>\S.*)$",
    re.IGNORECASE,
)
_ROW = re.compile(r"^\s*\|\s*(?:step\s*)?(\d{1,2})[.)]?\s*\|\s*(\S[^|]*?)\s*\|.*$", re.IGNORECASE)
# Start of a line that is no step: a step without a number begins with what to do.
_PROSE = re.compile(
    r"\s*(?:[{\[|\"]|(?:i|i['’]\w+|we|you|the|this|that|it|there|these|those|they|he|she|here|a|an"
    r"|my|no|yes|sorry|sure|okay|ok|certainly|unfortunately|as|since|because|however|to|in|let|let['’]s|so)\b)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*[-*+•–]\s+")
_ENDS = re.compile(r"^\s*(?:#+\s|query\s*:|program\s*:|```|~~~|def\s+\w+\s*\()", re.IGNORECASE)
_PROGRAM = re.compile(r"^\s*def\s+\w+\s*\(", re.MULTILINE)


def numbered(*steps: str) -> str:
    """Return steps as a plan: ``1. …``, one per line, without a final newline."""
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


def build_plan_prompt(
    query: Query,
    entries: Sequence[ApiEntry],
    correct: Sequence[Example] = (),
    incorrect: Sequence[Example] = (),
    *,
    style: str = "chat",
    sees: bool = False,
) -> Prompt:
    """Build the prompt that asks for a plan.

    Args:
        query: a query whose task is resolved (not ``auto``).
        entries: the names that the program may call.
        correct: examples with plans that worked, shown in this order.
        incorrect: examples with plans that did not work, and their critique.
        style: ``chat`` for a model that follows instructions; ``full`` for a model that continues a
            text, whose prompt ends with the number of the first step; ``compact`` for a small
            planner that was trained on it.
        sees: the prompt shows the planner the pictures of the query.

    Raises:
        UnknownNameError: the style does not exist.
    """
    if style not in PLAN_STOP:
        raise UnknownNameError("style of a planner's prompt", style, PLAN_STOP)
    if style == "compact":
        text = ""
        for example in correct:
            steps = filter(None, map(str.strip, (example.plan or "").splitlines()))
            text += compact_plan_request(query.task, example.query, example.options)
            text += "\n".join(steps) + END_OF_PROGRAM
        for example in incorrect:
            plan, critique = example.plan or "", example.critique or ""
            text += compact_wrong_plan(query.task, example.query, plan, critique, example.options)
        return text + compact_plan_request(query.task, query.text, query.options)
    text = ""
    for title, examples in (
        ("Plans that worked", correct),
        ("Plans that did not work, and why", incorrect),
    ):
        text += f"## {title}\n\n" if examples else ""
        for example in examples:
            options = f"\nPossible answers: {'; '.join(map(one_line, example.options))}"
            text += f"Query: {one_line(example.query)}{options if example.options else ''}\n"
            text += f"{(example.plan or '').strip()}{why_text(example.critique)}\n\n"
    task = "question" if is_open_video(query) else query.task
    tools = "\n".join(line.removeprefix("# ") for line in render(entries, "compact").splitlines())
    values = {
        "media": media_words(query),
        "sight": fill("plan_seen" if sees else "plan_blind", {}).strip(),
        "tools": tools,
        "demonstrations": text,
        "most": str(MOST_STEPS),
        "answer": fill(f"plan_{task}", {}).strip(),
        "query": chat_query(query),
    }
    return fill_turns("plan", values) if style == "chat" else fill("plan", values) + "\n1."


def compact_plan_request(task: str, query: str, options: Sequence[str] = ()) -> str:
    """Return all lines before a plan in the compact style."""
    return f"{compact_request(task, query, options)}# plan:\n"


def compact_wrong_plan(
    task: str, query: str, plan: str, critique: str, options: Sequence[str] = ()
) -> str:
    """Return a failed plan with its critique in the compact style, with the blank line that ends
    it.
    """
    request = compact_request(task, query, options)
    return f"{request}# wrong: {one_line(plan)}\n# why: {one_line(critique)}{END_OF_PROGRAM}"


def read_plan(reply: str) -> str:
    """Return the plan in a planner's reply: numbered steps, one per line; "" if there is no plan.

    The parser accepts thoughts before the plan, words around it, ``Step 1:`` and bold numbers,
    steps that continue on the next line, a missing first number that the prompt ended with, steps
    without numbers, rows of a table, and lists in JSON. Text after the plan, such as another query
    or a program, is dropped. Refusals and other prose are no plan.
    """
    text = without_reasoning(reply).replace("\r\n", "\n").replace("\r", "\n")
    lines = [_ROW.sub(r"\1. \2", line) for line in text.split("\n")]
    return numbered(*(_numbered(lines) or _in_json(text) or _unnumbered(lines, text)))


def _numbered(lines: Sequence[str]) -> list[str]:
    numbers = [int(step["number"]) for step in map(_STEP.match, lines) if step]
    is_continuation = numbers[:1] == [2] or (not numbers and lines[0].startswith(" "))
    if is_continuation and lines[0].strip() and not _STEP.match(lines[0]):
        lines = [f"1. {lines[0]}", *lines[1:]]  # the prompt ended with the first number
    steps: list[str] = []
    open_step = False
    for line in lines:
        step = _STEP.match(line)
        if step and int(step["number"]) == len(steps) + 1:
            steps.append(step["text"])
            open_step = True
        elif steps and (_ENDS.match(line) or (step and int(step["number"]) == 1)):
            break
        elif not line.strip():
            open_step = False
        elif open_step:
            steps[-1] += " " + _BULLET.sub("", line)
    return list(filter(None, map(_plain, steps[:MOST_STEPS])))


def _unnumbered(lines: Sequence[str], text: str) -> list[str]:
    if _PROGRAM.search(text) or is_refusal(text):
        return []
    steps = [_BULLET.sub("", line) for line in lines if not _ENDS.match(line)]
    if not any(map(_BULLET.match, lines)):
        steps = [step for step in steps if not _PROSE.match(step)]
    return list(filter(None, map(_plain, steps)))[:MOST_STEPS]


def _in_json(text: str) -> list[str]:
    """Return the steps of the first list in JSON whose items are texts or objects with a text."""
    for _, _, value in json_parts(text):
        lists = [value, *value.values()] if isinstance(value, dict) else [value]
        for items in filter(lambda item: isinstance(item, list) and item, lists):
            texts = [_longest_text(item) for item in items]
            steps = [step["text"] if (step := _STEP.match(text)) else text for text in texts]
            if all(any(map(str.isalpha, step)) for step in steps):
                return [_plain(step) for step in steps[:MOST_STEPS]]
    return []


def _longest_text(item: Any) -> str:
    texts = item.values() if isinstance(item, dict) else [item]
    return max((text for text in texts if isinstance(text, str)), key=len, default="")


def _plain(step: str) -> str:
    """Return a step on one line without control characters; "" if it holds no words."""
    text = "".join(letter for letter in one_line(step) if letter.isprintable()).strip()
    if text.count("**") % 2 or text.count("__") % 2:
        text = text.strip(" *_")
    text = re.sub(r"^([*_]{1,2})([^*_]+)\1$", r"\2", text)[:LONGEST_STEP]
    return text if any(letter.isalpha() for letter in text) else ""
