"""Builds the prompts that ask a language model for a program or for an answer.

:func:`build_prompt` asks for a program, :func:`build_select_prompt` for a choice among options;
:mod:`viper.prompting.feedback` says what went wrong with earlier programs.

There are three styles: ``compact`` (:mod:`viper.prompting.compact`, which uses no template) for
small program writers trained on exactly that format, as the embedded one is,
``full`` for models that continue a file, and ``chat`` as a conversation with a model that follows
instructions: the system message holds the API and the common rules and is the same for every query
of a profile; the user's message holds the examples, the rules of the task and the query. Profiles
that print the whole API have all but the query in the system message, and ask to correct a failed
program, as the paper does. A failed program and what went wrong are further turns. A ``full``
prompt ends with ``def execute_command(``, which the completion continues. The wording lives in
``templates/*.md``.

Source: Stanić et al. 2024, A.3 (feedback) and A.4 (order of API, examples, guidelines, earlier
program, query); the words are ours.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from viper.api.registry import ANSWER_TASKS
from viper.api.sets import ApiEntry
from viper.api.spec import UNSHARED, Listing, render
from viper.errors import UnknownNameError
from viper.models.llm.messages import Prompt, assistant, user
from viper.prompting.compact import (
    compact_document,
    compact_failure,
    compact_query,
    compact_selection,
    one_line,
)
from viper.prompting.expected_answer import expected_answer
from viper.prompting.extract import ENTRY
from viper.prompting.feedback import FailedProgram, feedback_text
from viper.prompting.template import MODULE_NAMES, facts_section, fill, fill_turns, template_data
from viper.sandbox import describe_failure
from viper.schema import PROMPT_STYLES, Example, Query

# In solved queries: comments on lines of their own, and lists that may be empty.
_COMMENT = re.compile(r"\n[ \t]*#.*")
_FOUND = re.compile(r"\b(\w+) = [\w.]+\.find\(")


def build_prompt(
    query: Query,
    entries: Sequence[ApiEntry],
    examples: Sequence[Example] = (),
    incorrect: Sequence[Example] = (),
    *,
    style: str = "compact",
    plan: str = "",
    feedback: FailedProgram | None = None,
    lines: bool = False,
    listing: Listing = UNSHARED,
) -> Prompt:
    """Build the prompt that asks for a program.

    Args:
        query: a query whose task is resolved (not ``auto``).
        entries: the names to list, ``api_set(name).entries(task)``.
        examples: solved queries, shown in this order; with a plan, they show theirs.
        incorrect: examples that did not work, with their critique. The compact style shows none,
            because its program writers copy the examples.
        plan: numbered steps for the program, separated by newlines.
        feedback: shown before the query, in the chat style after it; the compact style uses one
            comment line for it.
        lines: the program consists of lines that call modules and has no entry point.
        listing: the form in which chat prompts print the API, and facts about the models.

    Raises:
        UnknownNameError: the style does not exist.
    """
    if style not in PROMPT_STYLES:
        raise UnknownNameError("prompt style", style, PROMPT_STYLES)
    if style == "compact":
        failed = ""
        if feedback is not None:
            failed = compact_failure(feedback.failure.kind, feedback.failure.message)
        return compact_document(
            entries, query.task, examples, query.text, query.options, failed, plan
        )
    is_whole = lines or listing.whole or style != "chat"
    if lines:
        pictures = fill("pictures" if query.media == "images" else "picture", {}).strip()
        parts = ("guidelines_lines", f"guidelines_{query.task}_lines")
        rules = "\n".join(fill(part, {"pictures": pictures}).strip() for part in parts)
    else:
        sees_patches = any(entry.owner == "ImagePatch" for entry in entries)
        rules = guidelines_for(query, sees_patches, with_common=is_whole)
    if plan:
        rules = f"{rules}\n{fill('guidelines_plan', {}).strip()}"
    if not is_whole:
        rules, examples = listing.advice(rules), _fitting(query, examples)
    texts = (render(entries), "") if is_whole else listing.texts(entries)
    values = {
        "api": texts[0],
        "further": texts[1],
        "entry_point": entry_point(query.task, query.media),
        "examples": _examples_text(examples, incorrect, style, is_planned=bool(plan)),
        "guidelines": rules,
        "media": media_words(query),
    }
    if style == "chat":
        plan_section = f"\n\n## Plan\n\n{plan}" if plan else ""
        values |= {
            "query": chat_query(query) + plan_section,
            "facts": facts_section(listing.advice(listing.facts)),
            "rules": listing.advice(fill("rules", {"modules": MODULE_NAMES}).strip()),
        }
        name = "chat_lines" if lines else "chat"
        turns = fill_turns(f"{name}_whole" if listing.whole else name, values)
        if feedback is None:
            return turns
        told = feedback_text(feedback, entries, corrects=listing.whole)
        return (*turns, assistant(feedback.as_reply), user(told))
    values["feedback"] = ""
    if feedback is not None:
        failure = describe_failure(feedback.failure)
        program = feedback.program.strip("\n")
        values["feedback"] = fill("feedback", {"program": program, "failure": failure})
    query_lines = compact_query(query.text, query.options) + plan_comment(plan)
    values["query"] = query_lines.rstrip("\n")
    for name in ("guidelines", "feedback"):
        values[name] = _as_comments(values[name])
    prompt = fill("full_lines" if lines else "full", values).rstrip("\n")
    return f"{prompt}\n" if lines else prompt


def build_select_prompt(
    info: Any, question: str, options: Sequence[str], style: str = "compact"
) -> str:
    """Build the prompt whose likeliest continuation is the text of the best option.

    Args:
        info: the findings of the program: text, or a mapping of findings by name.

    Raises:
        UnknownNameError: the style does not exist.
    """
    findings = info_text(info)
    if style == "compact":
        return compact_selection(findings, question, options)
    if style not in PROMPT_STYLES:
        raise UnknownNameError("prompt style", style, PROMPT_STYLES)
    option_list = "\n".join(f"- {one_line(option)}" for option in options)
    values = {"info": findings, "question": one_line(question), "options": option_list}
    return fill("select", values).rstrip("\n")


def guidelines_for(query: Query, sees_patches: bool = True, with_common: bool = True) -> str:
    """Return the rules of the full and chat prompts for a query: the common ones, then its task's.

    Args:
        sees_patches: whether the API lists methods of patches, whose conventions are then added.
        with_common: False if the common ones stand in the system message.
    """
    parts = ["guidelines", *(["guidelines_patches"] if sees_patches else [])] * with_common
    own = "rules" if query.task == "ground" and not with_common else "guidelines"
    parts += ["guidelines_images"] if query.media == "images" else []
    parts += [f"{own}_{query.task}"]
    parts += ["guidelines_open"] if is_open_video(query) else []
    values = {"entry_point": entry_point(query.task, query.media), "modules": MODULE_NAMES}
    return "\n".join(fill(part, values).strip() for part in parts)


def entry_point(task: str, media: str = "image") -> str:
    """Return the signature of a program for such a task and media, ``execute_command(image)``."""
    if task == "choice":
        return "execute_command(video, question, possible_answers)"
    pictures = "image_list" if media == "images" else "image"
    return f"execute_command({pictures}{', fields' if task == 'extract' else ''})"


def info_text(info: Any) -> str:
    """Return the findings of a program on one line, such as ``name: value; name: value``."""
    if isinstance(info, Mapping):
        return "; ".join(f"{name}: {info_text(value)}" for name, value in info.items())
    if isinstance(info, list | tuple):
        return "; ".join(info_text(value) for value in info)
    return one_line(str(info))


def media_words(query: Query) -> str:
    """Describe the media of a query in words."""
    if query.task == "choice":
        return "a video"
    return "several images" if query.media == "images" else "an image"


def plan_comment(plan: str | None) -> str:
    """Return a plan as comments above a program, each with its newline; "" without a plan."""
    if not plan:
        return ""
    return "# plan:\n" + "".join(f"# {line}\n" for line in plan.splitlines())


def chat_query(query: Query) -> str:
    """Return the query on one line, then its options, its fields or the expected kind of answer."""
    options = "".join(f"\n- {one_line(option)}" for option in query.options)
    if options:
        return f"{one_line(query.text)}\n\nPossible answers:{options}"
    if query.fields:
        return f"{one_line(query.text)}\n\nFields: {', '.join(query.fields)}"
    expected = expected_answer(query.text) if query.task == "question" else None
    return one_line(query.text) + (f"\n\nExpected answer: {expected.words}." if expected else "")


def _examples_text(
    examples: Sequence[Example], incorrect: Sequence[Example], style: str, is_planned: bool
) -> str:
    """Return the sections of examples with the blank lines after them; "" without examples."""
    sections, is_chat = "", style == "chat"
    parts = ("Solved queries", examples), ("Programs that did not work, and why", incorrect)
    for title, shown in parts:
        blocks = []
        for example in shown:
            plan = plan_comment(example.plan) if is_planned else ""
            query = compact_query(example.query, example.options)
            text = query + plan + example.program.strip("\n")
            text = f"```python\n{text}\n```" if is_chat else text
            critique = example.critique if is_planned else ""
            blocks.append(text + why_text(critique, "" if is_chat else "# "))
        if blocks:
            gap = "\n\n" if is_chat or is_planned else "\n"
            sections += f"{'##' if is_chat else '#'} {title}{gap}" + "\n\n".join(blocks) + "\n\n"
    return f"{sections}\n" if sections and style == "full" else sections


def why_text(critique: str | None, mark: str = "") -> str:
    """Return the line that says why an example fails; "" if it does not."""
    return f"\n{mark}Why it fails: {one_line(critique)}" if critique else ""


def careful_examples(query: Query, names: Collection[str]) -> list[Example]:
    """Return the solved queries of this package for a kind of query, which call known names alone.

    Edits and tags have none.

    Args:
        names: the names that the prompt lists.
    """
    kind = "open" if is_open_video(query) else query.task
    kind = "images" if query.media == "images" and kind in ANSWER_TASKS else kind
    known = {*dir(builtins), ENTRY, *names}
    return [
        Example(**item, task=query.task, api="", score=1, sample_id=f"{kind} {number} by hand",
                seed=0, llm="", api_hash="")
        for number, item in enumerate(template_data("careful").get(kind, ()), 1)
        if known.issuperset(re.findall(r"\b([a-z_]+)\(", item["program"]))
    ]  # fmt: skip


def _fitting(query: Query, examples: Sequence[Example]) -> list[Example]:
    """Return the examples with the arguments of the query, without comments, and with the whole
    picture in place of an element of an empty list.
    """
    entry, fitting = entry_point(query.task, query.media), []
    for example in examples:
        program = _COMMENT.sub("", example.program)
        is_mined = example.llm and "image_patch = " in program  # by hand: lists are checked
        for name in set(_FOUND.findall(program)) if is_mined else ():
            element = rf"({name}[\1:] or [image_patch])[0]"
            program = re.sub(rf"\b{name}\[(-?\d+)\]", element, program).replace("[0:] or", " or")
        fitting += [replace(example, program=program)] if entry in program else []
    return fitting


def is_open_video(query: Query) -> bool:
    """Return whether a query about a video has no options to choose from."""
    return query.task == "choice" and not query.options


def _as_comments(text: str) -> str:
    """Return prose as Python comments, so that a full prompt reads as one file."""
    lines = text.rstrip("\n").splitlines()
    comments = "\n".join(f"# {line.removeprefix('## ')}".rstrip() for line in lines)
    return comments + ("\n\n" if text.endswith("\n\n") else "")
