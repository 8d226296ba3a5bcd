"""Soft accuracy against ten annotators, as the VQA challenges count it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from viper.evaluate.scorers.contractions import CONTRACTIONS

_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_POINT = re.compile(r"\.(?!\d)")
_DIGIT_COMMA = re.compile(r"\d,\d")
_NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    )
} | {"none": "0"}
_ARTICLES = {"a", "an", "the"}


def soft_accuracy(
    prediction: Any,
    answers: Sequence[str],
    normalise: Callable[[Any], str] | None = None,
) -> float:
    """The mean of ``min(1, matches / 3)`` over all subsets that leave one annotator out.

    With ten annotators and 0, 1, 2, 3, 4 matches: 0, 0.3, 0.6, 0.9, 1. A single annotator
    cannot be left out: then it is an exact match.
    Source: Antol et al. 2015, the evaluation code of the VQA challenge; OK-VQA (Marino et al.
    2019) uses the same.
    Differs: both sides are normalised alike, whether or not the annotators agree; ViperGPT
    stems the prediction and not the targets, the official code leaves the targets' articles.

    Args:
        prediction: the answer; None or nothing left of it scores 0.
        answers: one text of each annotator.
        normalise: applied to both sides; by default :func:`vqa_normalised`.
    """
    normalise = normalise or vqa_normalised
    said = "" if prediction is None else normalise(prediction)
    if not said:
        return 0.0
    total = len(answers)
    matches = sum(normalise(answer) == said for answer in answers)
    if total < 2:
        return float(matches)
    # A subset without one of the matching annotators sees a match less.
    thirds = matches * min(3, matches - 1) + (total - matches) * min(3, matches)
    return thirds / (3 * total)


def vqa_normalised(answer: Any) -> str:
    """An answer in the VQA challenge's form.

    Punctuation goes (between words it becomes a space; next to a space, or where the text has
    a number with a comma, it vanishes), points go unless a digit follows, lower case, ``none``
    and zero to ten become digits, articles go, apostrophes that were left out come back
    (``dont`` to ``don't``). Nothing is stemmed. Truth values are ``yes`` and ``no``.
    """
    if isinstance(answer, bool):
        answer = "yes" if answer else "no"
    words = _without_punctuation(str(answer).replace("\n", " ").replace("\t", " ").strip())
    numbered = [_NUMBER_WORDS.get(word, word) for word in words.lower().split()]
    return " ".join(CONTRACTIONS.get(word, word) for word in numbered if word not in _ARTICLES)


def stemmed(answer: Any) -> str:
    """:func:`vqa_normalised`, then each word's Porter stem (for either side, never for one)."""
    return " ".join(_stem(word) for word in vqa_normalised(answer).split())


def _without_punctuation(text: str) -> str:
    joins = _DIGIT_COMMA.search(text) is not None
    found = text
    for mark in _PUNCTUATION:
        beside_space = f"{mark} " in text or f" {mark}" in text
        found = found.replace(mark, "" if beside_space or joins else " ")
    return _POINT.sub("", found)


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("porter")
