"""Choice among lettered options: the prompt that lists them and the parser of the reply.

The parser never guesses: an unclear reply is no choice.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from typing import Any

from viper.agreement import normalise_answer
from viper.models.llm.replies import final_answer, without_reasoning
from viper.prompting.builder import info_text
from viper.prompting.compact import one_line
from viper.prompting.template import fill

# Words that a reply may put before its letter, such as ``The correct answer is``, even twice.
_LEAD = (
    r"(?:(?:my|the|so|therefore|thus)\W+)?(?:(?:correct|right|best|final)\W+)?"
    r"(?:answer|option|choice|letter|number)\b(?:\s+is\b)?"
)

# A letter is a label only if no word goes on after it: ``A cat`` and ``I'm`` are none.
_LETTER_ENDS = r"(?=[^\w\s'’-]|\s*$)"


def labels(count: int) -> list[str]:
    """Return A, B, … for up to 26 options, else 1, 2, …"""
    if count <= len(string.ascii_uppercase):
        return list(string.ascii_uppercase[:count])
    return [str(number) for number in range(1, count + 1)]


def build_choice_prompt(info: Any, question: str, options: Sequence[str]) -> str:
    """Build the prompt that asks for the letter of the best option.

    Args:
        info: the findings of the program: text, or a mapping of findings by name.
    """
    pairs = zip(labels(len(options)), options, strict=True)
    values = {
        "info": info_text(info),
        "question": one_line(question),
        "options": "\n".join(f"{label}. {one_line(option)}" for label, option in pairs),
        "marks": "letter" if len(options) <= len(string.ascii_uppercase) else "number",
    }
    return fill("select_letter", values).rstrip("\n")


def parse_choice(reply: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that a reply names, or None if it names none or several.

    An answer that the reply states counts first, see :func:`viper.models.llm.replies.final_answer`.
    Otherwise the first line that is not blank counts, and the last line if the first names none.

    Each is read in this order: a letter by itself, as in ``B``, ``(B)``, ``**B.** a ball`` or ``The
    answer is B``; the whole text of an option, first verbatim, then in any case, with or without
    its letter; the text of exactly one option among other words. If the text of an option is itself
    a letter, a letter means the label in the prompt.
    """
    lines = [line.strip() for line in without_reasoning(reply).splitlines() if line.strip()]
    for line in filter(None, [final_answer(reply), *lines[:1], *lines[-1:]]):
        for read in (_by_label, verbatim, _by_whole_text, _by_mention):
            index = read(line, options)
            if index is not None:
                return index
    return None


def stated(info: str, options: Sequence[str]) -> int | None:
    """Return the index of the only option that the information is, apart from case and articles."""
    text = normalise_answer(info)
    return _only(i for i, option in enumerate(options) if normalise_answer(option) == text)


def verbatim(reply: str, options: Sequence[str]) -> int | None:
    """Return the index of the option equal to the reply except for whitespace; None if none is."""
    text = one_line(reply)
    return next((i for i, option in enumerate(options) if one_line(option) == text), None)


def _by_label(line: str, options: Sequence[str]) -> int | None:
    """Read a letter by itself; before a space, "A" and "I" may be words."""
    names = labels(len(options))
    any_name = "|".join(sorted(names, key=len, reverse=True))
    after_lead = rf"(?i:{any_name}){_LETTER_ENDS}|(?:{any_name})(?<![AI])\b"
    match = (
        re.match(rf"\W*({any_name}){_LETTER_ENDS}", line)
        or re.fullmatch(rf"\W*((?i:{any_name}))\W*", line)
        or re.match(rf"\W*(?:(?i:{_LEAD})\W*)+({after_lead})", line)
        or re.search(rf"(?:\b(?:is|choose|pick|select)|,|['’]s)\s+\W*({any_name})\W*$", line)
    )
    return names.index(match[1].upper()) if match else None


def _by_whole_text(line: str, options: Sequence[str]) -> int | None:
    text = _plain(line)
    pairs = zip(labels(len(options)), options, strict=True)
    forms = [{_plain(option), _plain(f"{name} {option}")} for name, option in pairs]
    return _only(i for i, form in enumerate(forms) if text and text in form)


def _by_mention(line: str, options: Sequence[str]) -> int | None:
    """Return the one option whose words stand in the line, outside a longer option's words."""
    text = f" {_plain(line)} "
    alike: dict[str, list[int]] = {}
    for i, option in enumerate(options):
        alike.setdefault(_plain(option), []).append(i)
    mentions: list[int] = []
    for words in sorted(filter(None, alike), key=len, reverse=True):
        if f" {words} " in text:
            mentions += alike[words]
            text = text.replace(f" {words} ", " | ")
    return _only(mentions)


def _only(candidates: Iterable[int]) -> int | None:
    indices = list(candidates)
    return indices[0] if len(indices) == 1 else None


def _plain(text: str) -> str:
    """Return lower-case words joined by single spaces; minus and point are the only punctuation."""
    return " ".join(re.findall(r"-?\w+(?:[.'’-]\w+)*", text.lower()))
