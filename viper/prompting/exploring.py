"""Prompts of the strategies ``explore`` and ``look``, and the parser of their replies.

:func:`explore_prompt` builds the prompt of a turn, :func:`read_action` reads the reply to it;
:func:`conversation_after` adds the pictures that code shows.

An agent answers in turns. Each turn is one action: code to run, a thought, or the end. The result
of the code is returned between result tags. ``full`` and ``chat`` prompts state the rules in words
and list the names that code may use. The ``compact`` prompt is for small models that were trained
on it. They know the names and continue after the last line::

    # question: {question}
    # options: {a; b; c}                    only if there are options
    # caption: {caption}                    one per picture
    # answer: {answer}                      only as a hint for training, see viper.tuning
    <code>
    {code}
    </code>
    <result>
    {what the environment answered}
    </result>
    <thought>{thought}</thought>
    <done></done>

The parser accepts tags in any case, tags that are not closed, and code in any form that
:func:`viper.prompting.replies.in_fences` knows. Only the first action of a reply counts, because
the model wrote the rest without seeing its result; a thought before it belongs to it. Models that
are asked in words may also end with a sentence, such as ``The answer is 3``, or right after their
code.

A prompt of ``look`` is a conversation whose messages hold the pictures that code shows.
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

Replies are read by :func:`read_action`.

Source: DWIM (2025), supplement, sec. 6 and prompt 15.1, for actions and tags; the words are ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from viper.api.sets import ApiEntry
from viper.api.spec import UNSHARED, Listing
from viper.models.llm.messages import Conversation, Picture, Prompt, assistant, user
from viper.models.llm.replies import final_answer, json_fields, without_reasoning
from viper.prompting.compact import one_line, options_line
from viper.prompting.extract import FENCE, extract_code
from viper.prompting.replies import in_fences, is_script
from viper.prompting.template import MODULE_NAMES, facts_section, fill, fill_turns
from viper.schema import Query

ActionKind = Literal["code", "thought", "done"]

# Variable in which the agent leaves its answer.
FINAL = "final_answer"

# Stop strings of a small model; the parser needs no closing tag.
STOP: tuple[str, ...] = ("</code>", "</thought>", "</done>", "<result>")

# Stop strings of other models, whose reasoning and strings may hold the other tags.
STOP_IN_WORDS: tuple[str, ...] = ("<result>",)

# Greatest length of a result in a prompt, in characters: all later prompts repeat it, and the
# environment cuts prints and values already, so that mostly errors reach it.
MAX_RESULT = 1_200

EXPECTED = (
    "expected one action: <code>…</code> with Python to run, <thought>…</thought>, or "
    f"<done></done> once {FINAL} holds the answer"
)

EXPECTED_IN_WORDS = EXPECTED.replace("expected", "no action could be read from the reply; expected")

IGNORED = "Only the first action of a reply counts: what followed this code was not run."

CUT_OFF = "the reply was cut off after {tokens} tokens; write less text and shorter code"

_THOUGHT = re.compile(
    r"<\s*thought\s*>(?:((?:(?!<\s*thought).)*?)<\s*/\s*thought\s*>"
    r"|(.*?)(?=<\s*(?:thought|code|python|execute|tool_call|done)\b|<\s*/?\s*result\b|^(?:```|~~~)|\Z))",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_DONE = re.compile(r"<\s*done\s*/?>", re.IGNORECASE)
_DONE_IN_WORDS = re.compile(r"\W*(?:(?:i am|i'm|all)\s+)?(?:done|finished)\W*", re.IGNORECASE)
_DONE_NAMES = ("done", "finish", FINAL)
_LANGUAGES = ("", "python", "python3", "py", "tool_code")


@dataclass(frozen=True)
class Action:
    """The action of an agent in one turn.

    Attributes:
        text: the code, the thought, or an answer in words that ends the query.
        thought: words that stood before code or an end.
        ends: an end follows the code; it counts if the code does not fail.
        ignored: further actions follow, which do not count.
    """

    kind: ActionKind
    text: str = ""
    thought: str = ""
    ends: bool = False
    ignored: bool = False


@dataclass(frozen=True)
class Step:
    """An action and the observation that followed it.

    Attributes:
        reply: the reply in its own words; needed if no action could be read from it.
        result: the observation; "" if there is none.
        by: ``agent``, or ``checker`` for a thought of the verifier.
        pictures: the pictures that its code showed, each with its note.
    """

    action: Action | None
    result: str = ""
    reply: str = ""
    by: str = "agent"
    pictures: tuple[tuple[Picture, str], ...] = ()


def read_action(reply: str, *, in_words: bool = True) -> Action | None:
    """Return the first action of a reply, or None if there is none or its code has no statement.

    Args:
        in_words: also read thoughts beside other actions, and an end in a sentence or in JSON.
    """
    text = without_reasoning(reply)
    thought = _THOUGHT.search(text)
    if thought is None or _code_or_end(text[: thought.start()], in_words=False):
        return _code_or_end(text, in_words)
    words = (thought[1] or thought[2] or "").strip()
    action = _code_or_end(text[thought.end() :], in_words) if in_words else None
    if action is not None and action.kind != "thought":
        return replace(action, thought="\n".join(filter(None, (words, action.thought))))
    return Action("thought", words) if words else None


def _code_or_end(text: str, in_words: bool) -> Action | None:
    fields, text = json_fields(text), in_fences(text)
    fence, done = FENCE.search(text), _DONE.search(text)
    thought = fields.get("thought", "")
    if fence and fence[2].lower() in _LANGUAGES and not (done and done.start() < fence.start()):
        closing = re.compile(rf"^[ \t]*{fence[1]}[ \t]*$", re.MULTILINE)
        end = closing.search(text, fence.start() + len(fence[1]))
        code = extract_code(text[fence.start() : end.end() if end else None])
        words = _words(text[: fence.start()]) or thought
        if not code or not in_words:
            return Action("code", code) if code else None
        after = _code_or_end(text[end.end() :], in_words=False) if end else None
        ends = after is not None and after.kind == "done"
        return Action("code", code, words, ends, ignored=after is not None and not ends)
    if done:
        return Action("done", thought=_words(text[: done.start()]) if in_words else "")
    if not in_words:
        return None
    if is_script(text.strip()):
        return Action("code", text.strip())
    answer = final_answer(text)
    names = {fields.get(key, "").lower() for key in ("action", "name", "tool")}
    if answer or _DONE_IN_WORDS.fullmatch(text) or not names.isdisjoint(_DONE_NAMES):
        return Action("done", answer or fields.get("action_input", ""), thought)
    return Action("thought", thought) if thought else None


def _words(text: str) -> str:
    return re.sub(r"<\s*/?\s*thought\s*>", "", text, flags=re.IGNORECASE).strip()


def explore_prompt(
    query: Query,
    entries: Sequence[ApiEntry],
    captions: Sequence[str],
    steps: Sequence[Step],
    *,
    style: str,
    is_last: bool = False,
    hint: str = "",
    listing: Listing = UNSHARED,
    examples: str = "",
) -> Prompt:
    """Build the prompt that asks for the next action.

    A chat prompt is a conversation: each step is a reply of the agent and its result, so the
    prompt of a turn begins with that of the turn before.

    Args:
        captions: captions of the pictures, in their order; one for a video.
        is_last: state that no turn will follow.
        hint: the right answer in one line, to generate workflows for training.
        listing: the form in which chat prompts print the API, and facts about the models.
        examples: solved queries with their turns, as text; they stand before the query.
    """
    if style == "compact":
        opening = compact_opening(query.text, query.options, captions, hint)
        return examples + opening + "".join(map(step_text, steps))
    form = Listing(whole=True) if style == "full" else listing
    values = _values(query, entries, examples + asked(query, captions, hint), form)
    last = f"This is the last turn: store your best answer in {FINAL}.\n" if is_last else ""
    if style == "full":
        values |= {"so_far": "".join(map(step_text, steps)), "last": last}
        return fill("explore", values)
    turns = fill_turns("explore_chat_whole" if listing.whole else "explore_chat", values)
    return conversation_after(turns, steps, last=last.strip())


def _values(
    query: Query, entries: Sequence[ApiEntry], question: str, listing: Listing
) -> dict[str, str]:
    """Return the values of the templates of agents."""
    is_guided = query.task in _GUIDED
    api, further = listing.texts(entries)
    return {
        "api": api,
        "further": further,
        "variables": fill(f"variables_{query.media}", {}).strip(),
        "final": FINAL,
        "guidance": fill(f"explore_{query.task}", {}).strip() if is_guided else "",
        "asked": question,
        "modules": MODULE_NAMES,
        "facts": facts_section(listing.advice(listing.facts)),
    }


def conversation_after(
    opening: Conversation, steps: Sequence[Step], *, last: str = "", keep: int | None = None
) -> Conversation:
    """Return the conversation after these steps. All texts but ``last`` stay for good.

    Of the pictures that code showed, the newest ``keep`` stay; a line with its note stands for each
    older one. The pictures of the query stay.

    Args:
        last: text that announces the last turn.
        keep: None shows no pictures of code at all.
    """
    messages = list(opening)
    dropped = sum(len(step.pictures) for step in steps) - (keep or 0)
    for step in steps:
        text = step.reply or action_text(step.action)
        if step.by != "agent":
            messages[-1] = user(*messages[-1].parts, text.strip())
            continue
        parts: list[str | Picture] = []
        for picture, note in step.pictures if keep is not None else ():
            words = note or "a picture"
            parts += [f"[{words}: no longer shown]"] if dropped > 0 else [note, picture]
            dropped -= 1
        parts.append(result_text(step.result).strip() or "Go on.")
        messages += [assistant(text), user(*(part for part in parts if part != ""))]
    if last:
        messages[-1] = user(*messages[-1].parts, last)
    return tuple(messages)


def rethink_thought(value: str, tool: str, why: str = "") -> str:
    """Return the thought that calls a result wrong and asks for another approach.

    Quoted text cannot close the tag of the thought.

    Source: DWIM (2025), supplement, sec. 9 ("rethink"); the words are ours.
    """
    result = f"{tool} gave {value}" if tool else f"the result is {value}"
    thought = f"However, {result}, and that cannot be right. Rethink: ask in another way. {why}"
    return _escape_tags(thought.strip())


def compact_opening(
    question: str, options: Sequence[str], captions: Sequence[str], hint: str = ""
) -> str:
    """Return the lines before the first action of a small model."""
    lines = "".join(f"# caption: {_escape_tags(one_line(caption))}\n" for caption in captions)
    hint_line = f"# answer: {one_line(hint)}\n" if hint else ""
    return f"# question: {one_line(question)}\n{options_line(options)}{lines}{hint_line}"


def step_text(step: Step) -> str:
    """Return a turn as it stands in every prompt."""
    return action_text(step.action, step.reply) + result_text(step.result)


def action_text(action: Action | None, reply: str = "") -> str:
    """Return an action in its tags, or the reply if it holds no action."""
    if action is None:
        return f"{_cut(reply.strip())}\n"
    if action.kind == "code":
        return f"<code>\n{action.text}\n</code>\n"
    return f"<{action.kind}>{action.text}</{action.kind}>\n"


def result_text(result: str) -> str:
    """Return the observation in its tags, which its text cannot close."""
    if not result:
        return ""
    is_ours = result == EXPECTED_IN_WORDS  # its tags are not those of strangers
    return f"<result>\n{result if is_ours else _cut(_escape_tags(result))}\n</result>\n"


# Tags that only the agent may open or close; in the text of others they are made harmless.
_TAGS = re.compile(r"<(?=\s*/?\s*(?:result|code|thought|done)\b)", re.IGNORECASE)


def _escape_tags(text: str) -> str:
    return _TAGS.sub("‹", text)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_RESULT else f"{text[:MAX_RESULT]}…"


def asked(query: Query, captions: Sequence[str] = (), hint: str = "") -> str:
    """Return the query in the words of prompts for agents, with captions and a hint."""
    options = f"Options: {'; '.join(map(one_line, query.options))}\n" if query.options else ""
    hint_line = f"The right answer is: {one_line(hint)}\n" if hint else ""
    lines = "".join(f"Caption: {_escape_tags(one_line(caption))}\n" for caption in captions)
    return f"Query: {one_line(query.text)}\n{options}{lines}{hint_line}"


# Tasks with a template of advice; edits and tags need none beside the rules.
_GUIDED = frozenset(("ground", "question", "choice", "statement"))

LAST = "This is the last turn: give your best answer now."


def compact_look_opening(
    question: str, options: Sequence[str], pictures: Sequence[Picture], turns: int
) -> Conversation:
    """Return the opening for a small model that was trained on it.

    It says how many turns there are, so that nothing announces the last one.
    """
    text = f"# question: {one_line(question)}\n{options_line(options)}# turns: {turns}\n"
    return (user(*pictures, text),)


def chat_look_opening(
    query: Query,
    entries: Sequence[ApiEntry],
    shown: Sequence[str | Picture],
    listing: Listing = UNSHARED,
    **limits: int,
) -> Conversation:
    """Return the opening that states the rules in words.

    Args:
        entries: the names that code may use.
        shown: the pictures of the query, with words about them.
        listing: the form in which the prompt prints the API, and facts about the models.
        limits: ``turns``, ``pictures`` that code may show, and how many to ``keep`` in sight.
    """
    values = _values(query, entries, asked(query), listing)
    values |= {name: str(limit) for name, limit in limits.items()}
    standing, question = fill_turns("look_chat", values)
    return (standing, user(*shown, *question.parts))
