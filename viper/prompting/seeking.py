"""Prompts of strategy ``seek``, and the parsers of their replies.

The main prompts split a question into a visual and a knowledge part, choose the next action, judge
its findings, and answer from common knowledge. ``full`` and ``chat`` prompts state everything in
words. The ``compact`` prompts are for small models that were trained on them and that continue
the last line::

    # question: {question}
    # visual:                          ... and "# knowledge: ..." on the next line

    # query: {query}
    # known: {line}                    one per fact
    # actions: {caption; vqa; detect}
    # next:                            ... {action} or {action}: {words}

    # query: {query}
    # known: {line}
    # {action}: {words}
    # found: {line}                    a single one
    # verdict:                         ... no | more: {text} | answer: {text}

    # query: {query}
    # answer:

Findings are text of strangers. A prompt holds them in a separate quoted block, each cut and on one
line, and tells the model that they are material and not instructions.

Worked examples stand in ``templates/seek_examples_*.md``: ten split questions, good and bad
verdicts on searches, and reasoning at the end of a fixed sequence. Small models are trained without
them.

Source: AVIS (Hu et al. 2023), appendix E, for the requests and what their examples show; the words
are ours. Differs: one reply holds the action and its argument, such as the object to select, where
the paper asks for the object in a second request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from viper.models.llm.messages import Prompt
from viper.models.llm.replies import final_answer, first_line, json_fields, without_reasoning
from viper.prompting.compact import one_line
from viper.prompting.template import fill, fill_turns

# Greatest number of findings in a prompt, which gives the count of the rest: two screens of
# lines, since more of a search's hits are seldom about the question.
MAX_FOUND = 12

# Findings that one prompt judges, by style: small models read them one at a time.
AT_ONCE: Mapping[str, int] = {"compact": 1, "full": MAX_FOUND, "chat": MAX_FOUND}

# Greatest length of a finding in characters, about a paragraph; one page could fill a prompt.
MAX_LINE = 400

# Greatest number of sentences of a finding that is read sentence by sentence: each is a request.
MAX_SENTENCES = 12

# A full stop before a blank ends a sentence; one in a number or an address does not.
_SENTENCE = re.compile(r"(?<=[.!?])\s+")

# Stands in the knowledge question for the answer to the visual one; no question has it itself.
PLACEHOLDER = "#"

# A small model would go on with the next prompt of its training.
STOP: Mapping[str, tuple[str, ...]] = {"compact": ("\n\n",), "full": (), "chat": ()}

Kind = Literal["uninformative", "informative", "answer"]

# Worked examples of a prompt: ``templates/seek_examples_NAME.md``; "" shows none.
Examples = Literal["", "split", "visual", "knowledge", "sequence"]


@dataclass(frozen=True)
class Split:
    """A question in two parts: one for the picture and one for knowledge.

    Attributes:
        knowledge: contains :data:`PLACEHOLDER` for the answer to the visual part; "" or only the
            placeholder if the visual part is the whole question.
    """

    visual: str
    knowledge: str = ""

    @property
    def is_visual(self) -> bool:
        """Return whether the picture alone answers the question."""
        return self.knowledge.strip(" ?.") in ("", PLACEHOLDER)

    def about(self, visual_answer: str) -> str:
        """Return the knowledge question with the visual answer filled in."""
        if PLACEHOLDER in self.knowledge:
            return self.knowledge.replace(PLACEHOLDER, visual_answer)
        return f"{self.knowledge} ({visual_answer})" if visual_answer else self.knowledge


@dataclass(frozen=True)
class Decision:
    """The next action and its argument in words."""

    action: str
    words: str = ""


@dataclass(frozen=True)
class ResultVerdict:
    """Judgement of a result.

    Attributes:
        extracted: the information in it; "" if it is uninformative.
        reason: in words; may be empty.
    """

    kind: Kind
    extracted: str = ""
    reason: str = ""


@dataclass(frozen=True)
class ActionChoice:
    """An action that the planner may choose, for its prompt."""

    action: str
    instruction: str
    takes: str = ""


@dataclass(frozen=True)
class DecisionExample:
    """A past decision, as an example in a prompt."""

    query: str
    known: tuple[str, ...]
    action: str
    words: str = ""


def split_prompt(question: str, style: str, examples: Examples = "") -> Prompt:
    """Build the prompt that asks for the two sub-questions."""
    if style == "compact":
        return f"# question: {one_line(question)}\n# visual:"
    shown = _examples(examples)
    return _fill("seek_split", style, examples=shown, question=one_line(question))


def read_split(reply: str, style: str) -> Split | None:
    """Return the sub-questions in a reply, or None if there are none."""
    text = _lines(reply, "visual", style)
    visual, knowledge = _field(text, "visual"), _field(text, "knowledge")
    return Split(visual, knowledge) if visual else None


def plan_prompt(
    query: str,
    facts: Sequence[str],
    choices: Sequence[ActionChoice],
    examples: Sequence[DecisionExample],
    style: str,
    *,
    original: str = "",
    outcome: str = "",
    sees: bool = False,
) -> Prompt:
    """Build the prompt that asks for the next action among the choices.

    Args:
        sees: the model gets the picture with the prompt.
        original: the whole question, of which ``query`` is a part; chat prompts show it.
        outcome: what happened since the last decision, see :func:`step_outcome`.
    """
    if style == "compact":
        names = "; ".join(choice.action for choice in choices)
        return f"{_query_lines(query, facts)}# actions: {names}\n# next:"
    actions = "\n".join(
        f"- {choice.action}: {choice.instruction}."
        + (f" Write beside it: {choice.takes}." if choice.takes else "")
        for choice in choices
    )
    demonstrations = "".join(
        f"Question: {one_line(example.query)}\nKnown:\n{_bullets(example.known)}\n"
        f"Next: {example.action}{f': {one_line(example.words)}' if example.words else ''}\n\n"
        for example in examples
    )
    return _fill(
        "seek_plan",
        style,
        actions=actions,
        sight=fill("seek_seen" if sees else "seek_blind", {}).strip(),
        demonstrations=f"## Examples\n\n{demonstrations}" if examples else "",
        outcome=f"## Since the last decision\n\n{outcome}\n\n" if outcome else "",
        original=f"The whole question: {one_line(original)}\n\n" if original else "",
        query=one_line(query),
        known=_bullets(facts),
    )


def step_outcome(step: Mapping[str, Any], known: Sequence[str] = ()) -> str:
    """Return in words how a step of the search went, for the planner's next turn.

    Args:
        step: an entry of the trace's ``path``.
        known: facts that the same prompt lists, which are left out here.
    """
    if "back" in step:
        return "Nothing is left to try from there, so the search went one step back."
    words = f": {one_line(str(step['words']))}" if step["words"] else ""
    search = f"{step['action']}{words}"
    if step.get("failure"):
        return f"{search} failed."
    lines = [*step.get("found", ())[:8], step.get("reason", ""), step.get("extracted", "")]
    new = [line for line in dict.fromkeys(filter(None, lines)) if line not in known]
    end = f":\n{_quoted(new)}" if new or not lines else "; it is listed as known."
    return f"{search}\nFound, judged {step['verdict']}{end}"


def read_decision(reply: str, actions: Sequence[str], style: str) -> Decision | None:
    """Return the first of the actions that a reply names, with its argument, or None."""
    text = _lines(reply, "next", style)
    line = _field(text, "next") or _field(text, "(?:action|tool|name)")
    candidates = [line] if line else text.splitlines()
    names = "|".join(sorted(map(re.escape, actions), key=len, reverse=True)).replace("_", "[_ -]")
    if not names:
        return None
    for candidate in candidates:
        match = re.match(
            rf"\W*({names})\b[\s`*\"']*(?:[:(]\s*|[-–—>]+\s+)?(.*)", candidate, re.IGNORECASE
        )
        if match:
            words = match[2].strip().strip("`\"')").strip()
            if not words and style != "compact":
                words = _field(text, "(?:words|query|question|input|action_input|argument)")
            return Decision(re.sub("[ -]", "_", match[1].lower()), words)
    return None


def judge_prompt(
    query: str,
    facts: Sequence[str],
    decision: Decision,
    findings: Sequence[str],
    style: str,
    examples: Examples = "",
) -> Prompt:
    """Build the prompt that asks for the value of a result for a query."""
    if style == "compact":
        words = f" {one_line(decision.words)}" if decision.words else ""
        lines = "".join(f"# found: {_cut(finding)}\n" for finding in findings[:MAX_FOUND])
        return f"{_query_lines(query, facts)}# {decision.action}:{words}\n{lines}# verdict:"
    words = f" ({one_line(decision.words)})" if decision.words else ""
    return _fill(
        "seek_judge",
        style,
        examples=_examples(examples),
        query=one_line(query),
        known=_bullets(facts),
        action=f"{decision.action}{words}",
        found=_quoted(findings),
    )


# The words of small models, which are short, and of the prompts in words.
_VERDICTS: Mapping[str, Kind] = {
    "no": "uninformative",
    "uninformative": "uninformative",
    "not informative": "uninformative",
    "more": "informative",
    "informative": "informative",
    "answer": "answer",
    "final answer": "answer",
}


def read_verdict(reply: str, style: str) -> ResultVerdict | None:
    """Return the verdict in a reply, or None if there is none.

    A verdict that claims information but does not give it counts as uninformative.
    """
    text = _lines(reply, "verdict", style)
    verdict = _field(text, "verdict")
    names = "|".join(sorted(_VERDICTS, key=len, reverse=True))
    match = re.match(rf"\W*({names})\b\W*?(?::\s*(.*))?$", verdict, re.IGNORECASE)
    if not match:
        return None
    kind = _VERDICTS[match[1].lower()]
    extracted = (match[2] or _field(text, "extracted") or _field(text, "answer")).strip(" `\"'*")
    reason = _field(text, "reason")
    if kind == "uninformative" or not extracted:
        return ResultVerdict("uninformative", "", reason)
    return ResultVerdict(kind, extracted, reason)


def parts_of(line: str, style: str) -> list[str]:
    """Split a finding into parts that are judged one at a time: sentences for small models.

    Each part keeps the text before the first colon, which names the subject of the finding.
    """
    if style != "compact":
        return [line]
    title, colon, text = line.partition(": ")
    sentences = _SENTENCE.split(text if colon else title)[:MAX_SENTENCES]
    subject = f"{title}: " if colon else ""
    return [f"{subject}{part.strip()}" for part in sentences if part.strip()] or [line]


def short_answer_prompt(
    question: str,
    facts: Sequence[str],
    style: str,
    kind: Literal["answer", "sequence", "memory"] = "answer",
    examples: Examples = "",
) -> Prompt:
    """Build the prompt that asks for a short answer.

    Args:
        kind: from common knowledge, from reasoning over the facts of a fixed sequence, or the most
            likely one from memory; small models know one prompt for all of them.
    """
    if style == "compact":
        return f"{_query_lines(question, facts)}# answer:"
    values = {"query": one_line(question), "known": _bullets(facts)}
    return _fill(f"seek_{kind}", style, examples=_examples(examples), **values)


def read_short_answer(reply: str, style: str = "compact") -> str:
    """Return the answer that a reply in words states, otherwise its first line; "" if unknown."""
    answer = ""
    if style != "compact":
        answer = final_answer(reply) or _field(without_reasoning(reply), "answer")
    answer = answer or re.sub(r"^(?:\W*answer\W*:\s*)", "", first_line(reply), flags=re.IGNORECASE)
    return "" if answer.strip(" .").lower() == "unknown" else answer.strip()


def _examples(name: Examples) -> str:
    return fill(f"seek_examples_{name}", {}) if name else ""


def _query_lines(query: str, facts: Sequence[str]) -> str:
    lines = "".join(f"# known: {_cut(fact)}\n" for fact in facts)
    return f"# query: {one_line(query)}\n{lines}"


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_cut(line)}" for line in lines) or "- nothing yet"


def _quoted(lines: Sequence[str]) -> str:
    """Return lines of strangers, each marked as a quotation; no line can end the block."""
    quoted = [f"> {_cut(line)}" for line in lines[:MAX_FOUND]]
    more = len(lines) - MAX_FOUND
    return "\n".join([*quoted, *([f"> ({more} more)"] if more > 0 else [])]) or "> (nothing)"


def _cut(line: str) -> str:
    return one_line(line)[:MAX_LINE]


def _lines(reply: str, first: str, style: str) -> str:
    """Return a reply as lines ``name: value``, those of JSON included.

    Args:
        first: the name that the prompt of a small model ended with.
    """
    if style == "compact":
        return f"{first}:{reply}"
    text = without_reasoning(reply)
    fields = json_fields(text).items()
    return "\n".join(f"{name}: {one_line(value)}" for name, value in fields) or text


def _field(text: str, name: str) -> str:
    """Return the text after ``name:`` at the start of a line; the last such line counts."""
    values = re.findall(rf"^\W*{name}\W*?:[*_` \t]*(.*)$", text, re.IGNORECASE | re.MULTILINE)
    return str(values[-1]).strip() if values else ""


def _fill(name: str, style: str, **values: str) -> Prompt:
    return fill_turns(name, values) if style == "chat" else fill(name, values)
