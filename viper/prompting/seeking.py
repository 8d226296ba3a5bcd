"""Prompts of strategy ``seek``, and what is read from the replies.

Four are asked: to split a question into what the picture and what texts must tell, to choose the
next action, to judge what it found, to answer from common knowledge. ``full`` and ``chat`` prompts
say everything in words. The ``compact`` ones are for small models that were trained on them, which
go on after the last line::

    # question: {question}
    # visual:                          ... and "# knowledge: ..." on the next line

    # query: {query}
    # known: {line}                    one a line
    # actions: {caption; vqa; detect}
    # next:                            ... {action} or {action}: {words}

    # query: {query}
    # known: {line}
    # {action}: {words}
    # found: {line}                    a single one
    # verdict:                         ... no | more: {text} | answer: {text}

    # query: {query}
    # answer:

What was found is text of strangers: it stands in a quoted block of its own, each line cut and in
one line, and whoever reads the prompt is told that it is material and gives no orders.

Source: AVIS (Hu et al. 2023), appendix E, for what is asked; the words are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Literal

from viper.prompting.compact import one_line

STYLES_ASKED_IN_WORDS = ("full", "chat")

MAX_FOUND = 12
"""Lines of what was found that a prompt shows; the rest is counted."""

AT_ONCE: Mapping[str, int] = {"compact": 1, "full": MAX_FOUND, "chat": MAX_FOUND}
"""Findings that are judged in one prompt, by style: small models read them one by one."""

MAX_LINE = 400
"""Characters of such a line."""

MAX_SENTENCES = 12
"""Of a finding that is read sentence by sentence."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+")

PLACEHOLDER = "#"
"""Stands in the question about knowledge for the answer to the visual one."""

STOP: Mapping[str, tuple[str, ...]] = {"compact": ("\n\n",), "full": (), "chat": ()}

Kind = Literal["uninformative", "informative", "answer"]


@dataclass(frozen=True)
class Split:
    """A question in two: what the picture must tell, and what must be known beside it.

    Attributes:
        knowledge: with :data:`PLACEHOLDER` for the answer to the first; "" or the placeholder
            alone where the first is all.
    """

    visual: str
    knowledge: str = ""

    @property
    def is_visual(self) -> bool:
        """Whether the picture alone answers it."""
        return self.knowledge.strip(" ?.") in ("", PLACEHOLDER)

    def about(self, found: str) -> str:
        """The question about knowledge, with what the picture told in its place."""
        if PLACEHOLDER in self.knowledge:
            return self.knowledge.replace(PLACEHOLDER, found)
        return f"{self.knowledge} ({found})" if found else self.knowledge


@dataclass(frozen=True)
class Decision:
    """The next action, and what is written beside it."""

    action: str
    words: str = ""


@dataclass(frozen=True)
class Verdict:
    """What a result is worth.

    Attributes:
        extracted: what it tells; "" of one that is uninformative.
        reason: in words; may be empty.
    """

    kind: Kind
    extracted: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Choice:
    """An action that may be taken, for the planner's prompt."""

    action: str
    instruction: str
    takes: str = ""


@dataclass(frozen=True)
class Decided:
    """A decision that somebody took, as an example."""

    query: str
    known: tuple[str, ...]
    action: str
    words: str = ""


def split_prompt(question: str, style: str) -> str:
    """The prompt that asks for the two sub-questions."""
    if style == "compact":
        return f"# question: {one_line(question)}\n# visual:"
    return _filled("seek_split", question=one_line(question))


def read_split(reply: str, question: str, style: str) -> Split | None:
    """The sub-questions in a reply; None where there is none."""
    text = f"visual:{reply}" if style == "compact" else reply
    visual, knowledge = _field(text, "visual"), _field(text, "knowledge")
    return Split(visual, knowledge) if visual else None


def plan_prompt(
    query: str,
    known: Sequence[str],
    choices: Sequence[Choice],
    examples: Sequence[Decided],
    style: str,
) -> str:
    """The prompt that asks for the next action; shows no other than these."""
    if style == "compact":
        shown = "; ".join(one.action for one in choices)
        return f"{_asked(query, known)}# actions: {shown}\n# next:"
    actions = "\n".join(
        f"- {one.action}: {one.instruction}."
        + (f" Write beside it: {one.takes}." if one.takes else "")
        for one in choices
    )
    demonstrations = "".join(
        f"Question: {one_line(one.query)}\nKnown:\n{_listed(one.known)}\n"
        f"Next: {one.action}{f': {one_line(one.words)}' if one.words else ''}\n\n"
        for one in examples
    )
    return _filled(
        "seek_plan",
        actions=actions,
        demonstrations=f"## Examples\n\n{demonstrations}" if examples else "",
        query=one_line(query),
        known=_listed(known),
    )


def read_decision(reply: str, actions: Sequence[str], style: str) -> Decision | None:
    """The first of these actions that a reply names, with its words; None where it names none."""
    text = f"next:{reply}" if style == "compact" else reply
    line = _field(text, "next") or _field(text, "action")
    candidates = [line] if line else text.splitlines()
    names = "|".join(sorted(map(re.escape, actions), key=len, reverse=True))
    if not names:
        return None
    for one in candidates:
        found = re.match(rf"\W*({names})\b[\s`*\"']*(?:[:(]\s*)?(.*)", one, re.IGNORECASE)
        if found:
            return Decision(found[1].lower(), found[2].strip().strip("`\"')").strip())
    return None


def judge_prompt(
    query: str, known: Sequence[str], decision: Decision, found: Sequence[str], style: str
) -> str:
    """The prompt that asks what a result is worth for a query."""
    if style == "compact":
        words = f" {one_line(decision.words)}" if decision.words else ""
        lines = "".join(f"# found: {_cut(one)}\n" for one in found[:MAX_FOUND])
        return f"{_asked(query, known)}# {decision.action}:{words}\n{lines}# verdict:"
    words = f" ({one_line(decision.words)})" if decision.words else ""
    return _filled(
        "seek_judge",
        query=one_line(query),
        known=_listed(known),
        action=f"{decision.action}{words}",
        found=_quoted(found),
    )


_VERDICTS: Mapping[str, Kind] = {
    "no": "uninformative",
    "uninformative": "uninformative",
    "not informative": "uninformative",
    "more": "informative",
    "informative": "informative",
    "answer": "answer",
    "final answer": "answer",
}


def read_verdict(reply: str, style: str) -> Verdict | None:
    """The verdict in a reply; None where there is none.

    One that tells something and does not say what is uninformative.
    """
    text = f"verdict:{reply}" if style == "compact" else reply
    said = _field(text, "verdict")
    names = "|".join(sorted(_VERDICTS, key=len, reverse=True))
    found = re.match(rf"\W*({names})\b\W*?(?::\s*(.*))?$", said, re.IGNORECASE)
    if not found:
        return None
    kind = _VERDICTS[found[1].lower()]
    extracted = (found[2] or _field(text, "extracted") or _field(text, "answer")).strip(" `\"'*")
    reason = _field(text, "reason")
    if kind == "uninformative" or not extracted:
        return Verdict("uninformative", "", reason)
    return Verdict(kind, extracted, reason)


def parts_of(line: str, style: str) -> list[str]:
    """What is judged of a finding at a time: small models read its sentences one by one.

    Each part keeps what stands before the first colon, which says what the finding is about.
    """
    if style != "compact":
        return [line]
    title, colon, text = line.partition(": ")
    sentences = _SENTENCE.split(text if colon else title)[:MAX_SENTENCES]
    about = f"{title}: " if colon else ""
    return [f"{about}{one.strip()}" for one in sentences if one.strip()] or [line]


def short_answer_prompt(question: str, known: Sequence[str], style: str) -> str:
    """The prompt that asks a short question from common knowledge."""
    if style == "compact":
        return f"{_asked(question, known)}# answer:"
    return _filled("seek_answer", query=one_line(question), known=_listed(known))


def read_short_answer(reply: str) -> str:
    """The first line of a reply."""
    lines = [line.strip() for line in reply.strip().splitlines() if line.strip()]
    return re.sub(r"^(?:\W*answer\W*:\s*)", "", lines[0], flags=re.IGNORECASE) if lines else ""


def _asked(query: str, known: Sequence[str]) -> str:
    lines = "".join(f"# known: {_cut(one)}\n" for one in known)
    return f"# query: {one_line(query)}\n{lines}"


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_cut(one)}" for one in lines) or "- nothing yet"


def _quoted(lines: Sequence[str]) -> str:
    """Lines of strangers, each marked; no line can end the block."""
    shown = [f"> {_cut(one)}" for one in lines[:MAX_FOUND]]
    more = len(lines) - MAX_FOUND
    return "\n".join([*shown, *([f"> ({more} more)"] if more > 0 else [])]) or "> (nothing)"


def _cut(line: str) -> str:
    return one_line(line)[:MAX_LINE]


def _field(text: str, name: str) -> str:
    """What stands behind ``name:`` at the beginning of a line; the last such line counts."""
    found = re.findall(rf"^\W*{name}\W*?:[*_` \t]*(.*)$", text, re.IGNORECASE | re.MULTILINE)
    return str(found[-1]).strip() if found else ""


def _filled(name: str, **values: str) -> str:
    template = resources.files("viper.prompting").joinpath(f"templates/{name}.md")
    return Template(template.read_text(encoding="utf-8")).substitute(values).rstrip("\n") + "\n"
