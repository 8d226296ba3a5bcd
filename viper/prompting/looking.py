"""Prompts of strategy ``look``: a conversation whose messages hold the pictures that code shows.

The first message holds the pictures of the query. Each reply of the model is followed by a message
with the pictures that its code showed and the result of the code. ``chat`` prompts state the rules
in words and list the names that code may use. The ``compact`` prompt is for small models that were
trained on it::

    [user]      (pictures) # question: {question}
                # options: {a; b; c}            only if there are options
                # turns: {how many turns there are}
    [assistant] <code>
                {code}
                </code>
    [user]      (pictures) <result>
                {what the environment answered}
                </result>
    [assistant] The answer is {answer}.

Replies are read by :func:`viper.prompting.exploring.read_action`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viper.api.sets import ApiEntry
from viper.api.spec import render
from viper.models.llm.messages import Conversation, Message, Picture, assistant, user
from viper.prompting.compact import one_line, options_line
from viper.prompting.exploring import (
    FINAL,
    VARIABLES,
    Step,
    action_text,
    asked,
    guidance_on,
    result_text,
)
from viper.prompting.template import MODULE_NAMES, facts_section, fill_turns
from viper.schema import Query

LAST = "This is the last turn: give your best answer now."


@dataclass(frozen=True)
class Opening:
    """The messages before the first reply.

    Attributes:
        last: text that announces the last turn; "" if the opening says how many turns there are.
    """

    messages: Conversation
    last: str = LAST


def compact_opening(
    question: str, options: Sequence[str], pictures: Sequence[Picture], turns: int
) -> Opening:
    """Return the opening for a small model that was trained on it."""
    text = f"# question: {one_line(question)}\n{options_line(options)}# turns: {turns}\n"
    return Opening((user(*pictures, text),), last="")


def chat_opening(
    query: Query,
    entries: Sequence[ApiEntry],
    shown: Sequence[str | Picture],
    *,
    turns: int,
    pictures: int,
    keep: int,
    facts: str = "",
) -> Opening:
    """Return the opening that states the rules in words.

    Args:
        entries: the names that code may use.
        shown: the pictures of the query, with words about them.
        turns, pictures, keep: limits of turns, of shown pictures, and of those that stay.
        facts: what the profile says about its models.
    """
    values = {
        "api": render(entries, "full"),
        "variables": VARIABLES[query.media],
        "final": FINAL,
        "guidance": guidance_on(query.task),
        "asked": asked(query),
        "modules": MODULE_NAMES,
        "facts": facts_section(facts),
        "turns": str(turns),
        "pictures": str(pictures),
        "keep": str(keep),
    }
    standing, question = fill_turns("look_chat", values)
    return Opening((standing, user(*shown, *question.parts)))


def look_conversation(
    opening: Opening, steps: Sequence[Step], *, keep: int, is_last: bool = False
) -> Conversation:
    """Return the conversation after these steps.

    All texts stay. Of the pictures that code showed, the newest ``keep`` stay; a line with its note
    stands for each older one. The pictures of the query stay.
    """
    shown = sum(len(step.pictures) for step in steps)
    dropped = max(0, shown - keep)
    messages: list[Message] = list(opening.messages)
    for step in steps:
        parts: list[str | Picture] = []
        for picture, note in step.pictures:
            words = note or "a picture"
            parts += [f"[{words}: no longer shown]"] if dropped > 0 else [note, picture]
            dropped -= 1
        parts.append(result_text(step.result).strip() or "Go on.")
        messages.append(assistant(step.reply or action_text(step.action)))
        messages.append(user(*(part for part in parts if part != "")))
    if is_last and opening.last:
        messages[-1] = user(*messages[-1].parts, opening.last)
    return tuple(messages)
