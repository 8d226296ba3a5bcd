r"""Reads what every use of a language model's reply reads first: what follows the reasoning.

:func:`without_reasoning` comes first, because a draft in the reasoning must not count. The others
read JSON, the first line or a stated answer from the rest. Readers of code are in
:mod:`viper.prompting.replies`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

# Marks around the reasoning of the common families of models, as regular expressions.
_REASONING = (
    (r"<think>", r"</think>"),
    (r"<thinking>", r"</thinking>"),
    (r"<reasoning>", r"</reasoning>"),
    (r"<seed:think>", r"</seed:think>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    ("◁think▷", "◁/think▷"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|channel>\s*thought", r"<channel\|>"),
)

# Marks of the Harmony format, whose replies have a channel for reasoning and one for the answer.
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*<\|message\|>")
_SPECIAL = re.compile(r"<\|(?:start|end|return|call|channel|message|constrain)\|>")

# Brackets at which JSON may fail to begin: a reply full of brackets must not take seconds.
_MOST_BRACKETS = 50


def without_reasoning(text: str) -> str:
    """Return a reply without the model's reasoning.

    A closing mark without an opening one ends reasoning that the prompt opened. An opening mark at
    the start of a line that is never closed begins reasoning that was cut off.
    """
    channels = list(_CHANNEL.finditer(text))
    if channels:
        final = [channel for channel in channels if channel[1] == "final"]
        text = _SPECIAL.split(text[final[-1].end() :])[0] if final else ""
    for opening, closing in _REASONING:
        text = re.sub(f"{opening}.*?{closing}", "", text, flags=re.DOTALL | re.IGNORECASE)
        text = re.split(closing, text, flags=re.IGNORECASE)[-1]
        text = re.split(rf"^[ \t]*{opening}", text, flags=re.MULTILINE | re.IGNORECASE)[0]
    return text


def opened_reasoning(prompt: str) -> str:
    """Return the opening mark that a rendered prompt ends with, so that the reply begins within
    the reasoning; "" if there is none.
    """
    ends = (re.search(rf"({opening})\s*\Z", prompt, re.IGNORECASE) for opening, _ in _REASONING)
    return next((found[1] for found in ends if found), "")


def first_line(reply: str) -> str:
    """Return the first line of a reply that is not blank, without reasoning; "" if there is
    none.
    """
    lines = map(str.strip, without_reasoning(reply).splitlines())
    return next(filter(None, lines), "")


def json_parts(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield begin, end and value of each JSON object and array in a text."""
    decoder, end, failed = json.JSONDecoder(strict=False), 0, 0
    for bracket in re.finditer(r"[{\[]", text):
        if bracket.start() < end or failed >= _MOST_BRACKETS:
            continue
        try:
            value, end = decoder.raw_decode(text, bracket.start())
        except (ValueError, RecursionError):
            failed += 1
            continue
        yield bracket.start(), end, value


def json_fields(text: str) -> dict[str, str]:
    """Return the fields of the first JSON object in a text as texts, nested ones included."""
    objects = (value for _, _, value in json_parts(text) if isinstance(value, dict) and value)
    return _flat(next(objects, {}))


def _flat(value: Mapping[str, Any]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            fields |= _flat(item)
        elif item is not None:
            fields[str(key).lower()] = item if isinstance(item, str) else json.dumps(item)
    return fields


# How models state an answer: LaTeX's box (one level of braces within), tags, and a line in words,
# which must not be the beginning of an argument ("the answer is not …").
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_ANSWER_TAG = re.compile(r"<(?:final_)?answer>\s*(.*?)\s*</(?:final_)?answer>", re.DOTALL | re.I)
_ANSWER_LINE = re.compile(
    r"^[^\w\n]*(?:(?:so|thus|hence|therefore),?\s+)?(?:(?:my|the)\s+)?"
    r"(?:(?:final|correct|best|right)\s+)?answer(?:\s+to\s[^:\n]{1,80}?)?[\s*_`]*(?:is\b\s*:?|:|=)[\s*_`]*"
    r"(?!not\b|unclear|unknown|probably|still)(\S.{0,200})$",
    re.MULTILINE | re.IGNORECASE,
)


def final_answer(reply: str) -> str:
    r"""Return the answer that a reply states in words, or "" if it states none.

    The last ``\boxed{3}`` counts, else ``<answer>3</answer>``, the field ``answer`` of JSON, and
    lines such as ``The answer is 3.`` and ``**Final answer:** 3``.
    """
    text = without_reasoning(reply)
    if boxed := _BOXED.findall(text):
        return re.sub(r"\\(?:text|mathrm|textbf)\{([^{}]*)\}", r"\1", boxed[-1]).strip(" $")
    if tagged := _ANSWER_TAG.findall(text):
        return str(tagged[-1])
    fields = json_fields(text)
    lines = [fields.get("final_answer", fields.get("answer", "")), *_ANSWER_LINE.findall(text)]
    return lines[-1].strip().strip("*_`$\"'").removesuffix(".").strip("*_`$\"' ")
