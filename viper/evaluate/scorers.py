"""Scorers: pure functions of a prediction and its target, a missing prediction scoring 0."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    )
}


def box_iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Intersection over union of two boxes ``(x0, y0, x1, y1)``; 0 where either is empty."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    inter = max(width, 0.0) * max(height, 0.0)
    union = _area(first) + _area(second) - inter
    return inter / union if union > 0 else 0.0


def window_iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Intersection over union of two windows ``(start, end)`` in time; 0 where either is empty."""
    inter = max(0.0, min(first[1], second[1]) - max(first[0], second[0]))
    union = max(0.0, first[1] - first[0]) + max(0.0, second[1] - second[0]) - inter
    return inter / union if union > 0 else 0.0


def ground_correct(
    prediction: Sequence[float] | None, target: Sequence[float], threshold: float = 0.5
) -> bool:
    """Whether the predicted box overlaps the target by at least that IoU (acc@0.5)."""
    return prediction is not None and box_iou(prediction, target) >= threshold


def answer_correct(prediction: Any, target: str) -> bool:
    """Exact match after one and the same normalisation of both sides."""
    return prediction is not None and normalised(prediction) == normalised(target)


def choice_correct(prediction: int | None, target: int) -> bool:
    """Whether the chosen index is the target's."""
    return prediction is not None and prediction == target


def normalised(answer: Any) -> str:
    """An answer as it is compared: lower case, no punctuation or articles, digits for numbers."""
    if isinstance(answer, bool):
        answer = "yes" if answer else "no"
    text = re.sub(r"[^\w\s.]", " ", str(answer).lower()).strip(" .")
    words = _ARTICLES.sub(" ", text).split()
    return " ".join(_NUMBERS.get(word, word) for word in words)


def _area(box: Sequence[float]) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)
