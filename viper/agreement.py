"""Compares answers: normalises words, measures the overlap of boxes, and says what is correct.

Metrics use it to compare answers with annotations, and voting to compare answers with each other.
Reports, mining and learning ask it whether a score counts as correct.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

# Most metrics score 0 or 1. Graded ones (an IoU, OK-VQA's share of annotators) are cut like acc@0.5
# of visual grounding, which counts an IoU of exactly .5.
CORRECT = 0.5

# The same cut for two boxes: from this IoU on they are one object.
SAME_BOX = 0.5

ARTICLES = {"a", "an", "the"}
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NUMBERS = {word: str(number) for number, word in enumerate(_DIGITS)}
_TRUTHS = {"true": "yes", "false": "no"}
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}\b)")
_MARKS = re.compile(r"\.(?![0-9])|(?<=\w)-|-(?!\.?[0-9])|[^\w.-]|_")
_DECIMAL = re.compile(r"(-?)([0-9]*)\.([0-9]+)")


def normalise_answer(answer: Any) -> str:
    """Return an answer in the form used for comparison.

    Truth values are ``yes`` and ``no``, also as the words ``True`` and ``False``, because programs
    return them for yes-no questions. The text becomes lower case. Punctuation becomes a space,
    except the decimal point and the sign of a number. Thousands separators are removed, and
    articles are removed unless nothing else is left. The words zero to ten become digits, and
    ``2.0``, ``2.00`` and ``2`` become the same number. Normalising a second time changes nothing.
    """
    if isinstance(answer, float) and math.isfinite(answer) and answer.is_integer():
        answer = int(answer)
    text = unicodedata.normalize("NFKC", str(answer)).lower()
    words = _MARKS.sub(" ", _THOUSANDS.sub("", text)).split()
    words = [word for word in words if word not in ARTICLES] or words
    joined = " ".join(_number(word) for word in words)
    return _TRUTHS.get(joined, joined)


def box_iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the intersection over union in [0, 1]; 0 if either box is empty or not finite.

    Boxes are ``(x0, y0, x1, y1)`` in pixels from the top-left corner, x1 and y1 exclusive: boxes
    that only touch do not overlap, and no pixel is added to widths.
    """
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    inter = max(width, 0.0) * max(height, 0.0)
    union = _area(first) + _area(second) - inter
    if not all(map(math.isfinite, (*first, *second, inter, union))) or union <= 0:
        return 0.0
    return min(inter / union, 1.0)


def is_correct(score: float) -> bool:
    """Decide for every metric, report and learner whether a score counts as a correct answer."""
    return score >= CORRECT


def same_box(first: Sequence[float], second: Sequence[float]) -> bool:
    """Decide whether two boxes are the same answer; never if one is empty or not finite."""
    return box_iou(first, second) >= SAME_BOX


class TagCounts(NamedTuple):
    """Numbers of matched, predicted and expected tags of one picture."""

    matched: int
    predicted: int
    expected: int

    @property
    def f1(self) -> float:
        """Return ``2 matched / (predicted + expected)``; 1 if nothing was expected or predicted."""
        total = self.predicted + self.expected
        return 2 * self.matched / total if total else 1.0


def match_tags(predicted: Iterable[Any], expected: Iterable[Any]) -> TagCounts:
    """Count the largest set of one-to-one matches of label and box.

    A match has the same label after :func:`normalise_answer` and an IoU of at least 0.5.
    Source: VisProg's factual knowledge tagging (Gupta and Kembhavi 2023, sec. 4.3) counts
    F1 of boxes with their labels. Differs: the matching is the largest there is, so that the
    order of tags does not matter.

    Args:
        predicted: pairs ``(label, box)`` or ``{"label", "box"}``; boxes ``(x0, y0, x1, y1)`` in
            pixels from the top-left corner.
        expected: the same.
    """
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    mine, theirs = [_pair(tag) for tag in predicted], [_pair(tag) for tag in expected]
    if not mine or not theirs:
        return TagCounts(0, len(mine), len(theirs))
    fits = np.array([[a == b and same_box(box, place) for b, place in theirs] for a, box in mine])
    rows, columns = linear_sum_assignment(fits, maximize=True)
    return TagCounts(int(fits[rows, columns].sum()), len(mine), len(theirs))


def _pair(tag: Any) -> tuple[str, Any]:
    label, box = (tag["label"], tag["box"]) if isinstance(tag, Mapping) else tag
    return normalise_answer(label), box


def _number(word: str) -> str:
    decimal = _DECIMAL.fullmatch(word)
    if decimal is not None:
        sign, whole, fraction = decimal.groups()
        return f"{sign}{whole or '0'}.{fraction}".rstrip("0").rstrip(".")
    return NUMBERS.get(word, word)


def _area(box: Sequence[float]) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)
