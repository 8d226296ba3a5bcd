"""Prompts of strategy ``explore``, and the action that is read from a reply.

An agent answers in turns. Each turn is one action: code to run, a thought, or that it is done. What
the code gave comes back between result tags. ``full`` and ``chat`` prompts say the rules in words
and show the names that code may use. The ``compact`` one is for small models that were trained on
it, know the names, and go on after the last line::

    # question: {question}
    # options: {a; b; c}                    only where there are options
    # caption: {caption}                    one a picture
    # answer: {answer}                      only where it is given away, see viper.tuning
    <code>
    {code}
    </code>
    <result>
    {what the environment answered}
    </result>
    <thought>{thought}</thought>
    <done></done>

Reading is tolerant: tags in any case, a tag that is not closed, code in fences within it or instead
of it. The first action of a reply counts; what stands after it was written without seeing a result.

Source: DWIM (2025), supplement, sec. 6 and prompt 15.1, for actions and tags; the words are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Literal

from viper.api.sets import ApiEntry
from viper.api.spec import render
from viper.prompting.compact import one_line, options_line
from viper.prompting.extract import extract_code
from viper.schema import Query

ActionKind = Literal["code", "thought", "done"]

FINAL = "final_answer"
"""Variable in which the agent leaves its answer."""

STOP: tuple[str, ...] = ("</code>", "</thought>", "</done>", "<result>")
"""Where a model is stopped; the closing tag itself is not needed to read an action."""

MAX_RESULT = 1_200
"""Characters of a result that a prompt shows."""

EXPECTED = (
    "expected one action: <code>…</code> with Python to run, <thought>…</thought>, or "
    f"<done></done> once {FINAL} holds the answer"
)

_OPENED = re.compile(r"<\s*(code|thought|done)\s*(/?)>", re.IGNORECASE)
_FENCED = re.compile(r"(`{3,}|~{3,})[ \t]*(?:python|py)?[ \t]*\n(.*?)(?:\1|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Action:
    """What an agent does in a turn; ``text`` is the code or the thought."""

    kind: ActionKind
    text: str = ""


@dataclass(frozen=True)
class Step:
    """An action with what the environment answered to it.

    Attributes:
        written: what the model wrote, where no action could be read from it.
        result: "" where nothing is answered.
    """

    action: Action | None
    result: str = ""
    written: str = ""


def read_action(reply: str) -> Action | None:
    """The first action of a reply; None where there is none, or code without a statement."""
    opened = _OPENED.search(reply)
    if opened is None:
        fenced = _FENCED.search(reply)
        code = extract_code(fenced[0]) if fenced else ""
        return Action("code", code) if code else None
    kind = opened[1].lower()
    closing = re.compile(rf"<\s*/\s*{kind}\s*>|<\s*/?\s*result\s*>", re.IGNORECASE)
    closed = closing.search(reply, opened.end())
    body = reply[opened.end() : closed.start() if closed else len(reply)]
    other = _OPENED.search(body)
    if other is not None:
        body = body[: other.start()]
    if kind == "done" or opened[2]:
        return Action("done") if kind == "done" else None
    if kind == "thought":
        return Action("thought", body.strip()) if body.strip() else None
    code = _code_in(body)
    return Action("code", code) if code else None


def _code_in(body: str) -> str:
    fenced = _FENCED.search(body)
    return extract_code(fenced[0] if fenced else f"```python\n{body.strip(chr(10))}\n```")


def explore_prompt(
    query: Query,
    entries: Sequence[ApiEntry],
    captions: Sequence[str],
    steps: Sequence[Step],
    *,
    style: str,
    is_last: bool = False,
    hint: str = "",
) -> str:
    """The prompt that asks for the next action.

    Args:
        captions: of the pictures, in their order; of a video one.
        is_last: say that no turn will follow.
        hint: what else is to be known, a line; for making workflows.
    """
    so_far = "".join(map(step_text, steps))
    if style == "compact":
        return compact_opening(query.text, query.options, captions, hint) + so_far
    template = Template(_template("explore"))
    guidance = _template(f"explore_{query.task}") if query.task in _GUIDED else ""
    return template.substitute(
        api=render(entries, "full"),
        variables=_VARIABLES[query.media],
        final=FINAL,
        guidance=guidance.strip(),
        asked=_opening(query, captions, hint),
        so_far=so_far,
        last=f"This is the last turn: store your best answer in {FINAL}.\n" if is_last else "",
    )


def doubt(value: str, tool: str, why: str = "") -> str:
    """The thought that names a result which cannot be right, and that another way is due.

    What it quotes cannot close its tag.

    Source: DWIM (2025), supplement, sec. 9 ("rethink"); the words are ours.
    """
    told = f"{tool} gave {value}" if tool else f"the result is {value}"
    thought = f"However, {told}, and that cannot be right. Rethink: ask in another way. {why}"
    return _TAGS.sub(_disarmed, thought.strip())


def compact_opening(
    question: str, options: Sequence[str], captions: Sequence[str], hint: str = ""
) -> str:
    """The lines before the first action of a small model."""
    lines = "".join(f"# caption: {_TAGS.sub(_disarmed, one_line(one))}\n" for one in captions)
    hinted = f"# answer: {one_line(hint)}\n" if hint else ""
    return f"# question: {one_line(question)}\n{options_line(options)}{lines}{hinted}"


def step_text(step: Step) -> str:
    """A turn as every prompt shows it."""
    return action_text(step.action, step.written) + result_text(step.result)


def action_text(action: Action | None, written: str = "") -> str:
    """An action in its tags; what was written where there is none."""
    if action is None:
        return f"{_cut(written.strip())}\n"
    if action.kind == "code":
        return f"<code>\n{action.text}\n</code>\n"
    return f"<{action.kind}>{action.text}</{action.kind}>\n"


def result_text(result: str) -> str:
    """What the environment answered, in its tags; no text can close them."""
    if not result:
        return ""
    return f"<result>\n{_cut(_TAGS.sub(_disarmed, result))}\n</result>\n"


_TAGS = re.compile(r"<(?=\s*/?\s*(?:result|code|thought|done)\b)", re.IGNORECASE)


def _disarmed(found: re.Match[str]) -> str:
    return "‹"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_RESULT else f"{text[:MAX_RESULT]}…"


def _opening(query: Query, captions: Sequence[str], hint: str = "") -> str:
    options = f"Options: {'; '.join(map(one_line, query.options))}\n" if query.options else ""
    hinted = f"The right answer is: {one_line(hint)}\n" if hint else ""
    described = "".join(f"Caption: {_TAGS.sub(_disarmed, one_line(one))}\n" for one in captions)
    return f"Query: {one_line(query.text)}\n{options}{described}{hinted}"


_VARIABLES: Mapping[str, str] = {
    "image": "`image`, the picture, and `image_patch`, all of it as an `ImagePatch`",
    "images": "`image_list`, the pictures, and `image_patches`, each as an `ImagePatch`",
    "video": "`video`, the clip, and `video_segment`, all of it as a `VideoSegment`",
}

_GUIDED = frozenset(("ground", "question", "choice", "statement"))


def _template(name: str) -> str:
    found = resources.files("viper.prompting") / "templates" / f"{name}.md"
    return found.read_text(encoding="utf-8")
