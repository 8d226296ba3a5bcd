"""Exact match of answers, both sides brought to one form."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

_ARTICLES = {"a", "an", "the"}
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    )
}
_TRUTHS = {"true": "yes", "false": "no"}
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}\b)")
_MARKS = re.compile(r"\.(?![0-9])|(?<=\w)-|-(?!\.?[0-9])|[^\w.-]|_")
_DECIMAL = re.compile(r"(-?)([0-9]*)\.([0-9]+)")


def answer_correct(prediction: Any, target: str | Iterable[str]) -> bool:
    """Whether the prediction is the target, or one of the targets, after :func:`normalised`.

    None, and an answer of which nothing is left, is never right.
    Source: GQA (Hudson and Manning 2019) compares strings exactly.
    Differs: both sides are normalised, because free answers of programs are compared with
    annotations of one fixed form; ViperGPT normalises the prediction alone, which makes
    ``the dog``, ``t-shirt`` or ``two`` wrong wherever the annotation says just that.
    """
    if prediction is None:
        return False
    said = normalised(prediction)
    targets = [target] if isinstance(target, str) else list(target)
    return bool(said) and any(said == normalised(one) for one in targets)


def normalised(answer: Any) -> str:
    """An answer as it is compared.

    Truth values are ``yes`` and ``no``, also as the words ``True`` and ``False``, since programs
    return them for yes-no questions. Then: lower case; punctuation becomes a space, but for the
    point and the sign of a number; thousands commas go; articles go unless nothing else is left;
    the words zero to ten become digits; ``2.0``, ``2.00`` and ``2`` are the same number. Doing it
    twice changes nothing.
    """
    text = unicodedata.normalize("NFKC", _text(answer)).lower()
    words = _MARKS.sub(" ", _THOUSANDS.sub("", text)).split()
    words = [word for word in words if word not in _ARTICLES] or words
    joined = " ".join(_number(word) for word in words)
    return _TRUTHS.get(joined, joined)


def _text(answer: Any) -> str:
    if isinstance(answer, float) and math.isfinite(answer) and answer.is_integer():
        return str(int(answer))
    return str(answer)


def _number(word: str) -> str:
    decimal = _DECIMAL.fullmatch(word)
    if decimal is not None:
        sign, whole, fraction = decimal.groups()
        return f"{sign}{whole or '0'}.{fraction}".rstrip("0").rstrip(".")
    return _NUMBERS.get(word, word)
