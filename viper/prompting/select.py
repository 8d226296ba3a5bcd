"""Choosing among lettered options: the prompt that lists them and the reading of the reply.

Parsing is by what the reply says, never by a guess: an unclear reply is no choice.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from importlib import resources
from string import Template
from typing import Any

from viper.prompting.builder import info_text
from viper.prompting.compact import one_line

_LEAD = (
    r"(?:(?:my|the|so|therefore|thus)\W+)?(?:(?:correct|right|best|final)\W+)?"
    r"(?:answer|option|choice|letter|number)\b(?:\s+is\b)?"
)
"""What a reply may say before its letter, ``The correct answer is``; also twice over."""

_LETTER_ENDS = r"(?=[^\w\s'’-]|\s*$)"


def labels(count: int) -> list[str]:
    """A, B, … for up to 26 options, else 1, 2, …"""
    if count <= len(string.ascii_uppercase):
        return list(string.ascii_uppercase[:count])
    return [str(number) for number in range(1, count + 1)]


def build_choice_prompt(info: Any, question: str, options: Sequence[str]) -> str:
    """The prompt that asks for the letter of the best option.

    Args:
        info: what is known: text, or a mapping of named findings.
    """
    marked = zip(labels(len(options)), options, strict=True)
    values = {
        "info": info_text(info),
        "question": one_line(question),
        "options": "\n".join(f"{label}. {one_line(option)}" for label, option in marked),
        "marks": "letter" if len(options) <= len(string.ascii_uppercase) else "number",
    }
    template = resources.files("viper.prompting") / "templates" / "select_letter.md"
    return Template(template.read_text(encoding="utf-8")).substitute(values).rstrip("\n")


def parse_choice(reply: str, options: Sequence[str]) -> int | None:
    """Which option a reply names, or None where it names none or more than one.

    Read in this order, on the first line that is not blank: a letter of its own, as in
    ``B``, ``(B)``, ``**B.** a ball`` or ``The answer is B``; the whole text of an option,
    verbatim, then in any case, with or without its letter; the text of exactly one option
    among other words. Where an option's text is itself a letter, the letter counts as the
    prompt listed it.
    """
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    if not lines:
        return None
    for read in (_by_label, verbatim, _by_whole_text, _by_mention):
        found = read(lines[0], options)
        if found is not None:
            return found
    return None


def verbatim(reply: str, options: Sequence[str]) -> int | None:
    """Which option the reply is, letter for letter but for whitespace; None if none."""
    said = one_line(reply)
    return next((i for i, option in enumerate(options) if one_line(option) == said), None)


def _by_label(line: str, options: Sequence[str]) -> int | None:
    """A letter of its own; before a space, "A" and "I" may just be words."""
    names = labels(len(options))
    one_of = "|".join(sorted(names, key=len, reverse=True))
    announced = rf"(?i:{one_of}){_LETTER_ENDS}|(?:{one_of})(?<![AI])\b"
    match = (
        re.match(rf"\W*({one_of}){_LETTER_ENDS}", line)
        or re.fullmatch(rf"\W*((?i:{one_of}))\W*", line)
        or re.match(rf"\W*(?:(?i:{_LEAD})\W*)+({announced})", line)
    )
    return names.index(match[1].upper()) if match else None


def _by_whole_text(line: str, options: Sequence[str]) -> int | None:
    said = _plain(line)
    names = labels(len(options))
    forms = [
        {_plain(option), _plain(f"{name} {option}")}
        for name, option in zip(names, options, strict=True)
    ]
    return _only(i for i, form in enumerate(forms) if said and said in form)


def _by_mention(line: str, options: Sequence[str]) -> int | None:
    """The one option whose words stand in the line, outside a longer option's words."""
    said = f" {_plain(line)} "
    alike: dict[str, list[int]] = {}
    for i, option in enumerate(options):
        alike.setdefault(_plain(option), []).append(i)
    mentioned: list[int] = []
    for words in sorted(filter(None, alike), key=len, reverse=True):
        if f" {words} " in said:
            mentioned += alike[words]
            said = said.replace(f" {words} ", " | ")
    return _only(mentioned)


def _only(found: Iterable[int]) -> int | None:
    several = list(found)
    return several[0] if len(several) == 1 else None


def _plain(text: str) -> str:
    """Small letters, words joined by single spaces, marks left out (a minus and a point stay)."""
    return " ".join(re.findall(r"-?\w+(?:[.'’-]\w+)*", text.lower()))
