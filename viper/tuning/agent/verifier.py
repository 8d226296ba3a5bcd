"""Verifiers that know the label and compare the results of turns with it.

The rule-based verifier needs no model: it objects to an answer that is not the label. The other
verifier asks a language model, which is shown the label and must not reveal it.

Source: DWIM (2025), supplement, sec. 8 and figure 7, for the comparison; the rules are ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from viper.agreement import NUMBERS, normalise_answer
from viper.models.llm.protocol import LLM, Sampling
from viper.models.llm.replies import without_reasoning
from viper.prompting.compact import one_line
from viper.prompting.exploring import rethink_thought, step_text
from viper.prompting.template import fill
from viper.schema import Answer, Query, Turn
from viper.strategies.answers import is_desired
from viper.strategies.base import UsageMeter
from viper.strategies.explore.code import view
from viper.strategies.explore.workflow import step_of, tool_of

# Most tokens of a language model's reply about a turn: one word and a sentence that says why, with
# room for a model that explains at more length.
MAX_TOKENS = 160

_CONCEALED = "something else"

# Small numbers in words by their digits, and the reverse.
_SPELLED = NUMBERS | {digits: word for word, digits in NUMBERS.items()}


class LabelVerifier:
    """Objects to answers that are not the label.

    Args:
        label: the desired answer in the form of :attr:`viper.tuning.case.Case.desired`.
    """

    def __init__(self, query: Query, label: Any) -> None:
        self._query, self._label = query, label

    def critique(self, turns: Sequence[Turn], answer: Answer | None) -> str:
        """Return a thought that names the wrong result, or "" if there is no objection."""
        last = turns[-1]
        if last.failure is not None or last.kind not in ("code", "done"):
            return ""
        if last.kind == "code":
            code = view(last.text)
            if code is None or not code.is_candidate:
                return ""
        if answer is None or is_desired(answer, self._label, self._query.task):
            return ""
        return rethink_thought(_shown(last), tool_of(turns))


class LanguageVerifier:
    """Asks a language model whether a result disagrees with the label.

    Args:
        label: the desired answer in words.

    Attributes:
        meter: usage of the language model.
    """

    def __init__(self, llm: LLM, query: Query, label: str) -> None:
        self._llm, self._query, self._label = llm, query, label
        self.meter = UsageMeter()

    def critique(self, turns: Sequence[Turn], answer: Answer | None) -> str:
        """Return a critique as :class:`LabelVerifier` does, without the label in its text."""
        last = turns[-1]
        if last.failure is not None or last.kind not in ("code", "done"):
            return ""
        values = {
            "query": one_line(self._query.text),
            "label": one_line(self._label),
            "workflow": "".join(step_text(step_of(turn)) for turn in turns),
        }
        prompt = fill("explore_check", values)
        reply = self._llm.generate([prompt], Sampling(max_tokens=MAX_TOKENS))[0][0]
        self.meter.add(reply)
        text = without_reasoning(reply.text).strip()
        match = re.match(r"\W*disagrees\b\W*(.*)", text, re.IGNORECASE)
        if match is None:
            return ""
        why = concealed(one_line(match[1]), self._label, _shown(last))
        return rethink_thought(_shown(last), tool_of(turns), why)


def concealed(text: str, label: str, result: str) -> str:
    """Replace the label in a text unless the result that the text is about shows it.

    Only whole words are compared. Small numbers are also concealed in words.
    """
    spelled = {label, _SPELLED.get(label, label)}
    for spelling in filter(None, spelled):
        if f" {normalise_answer(spelling)} " not in f" {normalise_answer(result)} ":
            whole = rf"(?<!\w){re.escape(spelling)}(?!\w)"
            text = re.sub(whole, _CONCEALED, text, flags=re.IGNORECASE)
    return text


def _shown(turn: Turn) -> str:
    """Return the result of the turn in one line."""
    return one_line(turn.result or str(turn.value))
