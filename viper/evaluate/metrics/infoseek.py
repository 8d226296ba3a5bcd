"""InfoSeek: texts are matched exactly, numbers by a range, dates as the annotators spell them.

Source: the official scorer, ``infoseek_eval.py`` (Chen et al. 2023). Differs: a number that no
float can hold counts as none.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Sequence
from typing import Any

from viper.data.sample import Sample
from viper.evaluate.intervals import Estimate
from viper.evaluate.metrics.figures import Figures, figures_of, mean_of
from viper.evaluate.sample_result import Prediction, SampleResult, Score

SPLITS = ("unseen_question", "unseen_entity")

# Least overlap of an answered range with the right one, if it is not within it; the value of the
# official scorer.
TOLERANCE_IOU = 0.5

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NUMBER = re.compile(r"[-+]?\.?\d+(?:,\d\d\d)*\.?\d*(?:[eE][-+]?\d+)?")
_DASH = re.compile(r"(?<=\d)-")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class InfoSeek:
    """``accuracy``, and ``final``: the harmonic mean of the accuracies of both unseen splits.

    ``final`` needs both splits. Its interval comes from the splits' lower and upper ends, which
    makes it slightly too wide. Source: the official scorer.
    """

    name = "infoseek"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return 1 if the answer is right, else 0."""
        answer = None if prediction is None else prediction.value
        return Score(infoseek_score(answer, sample.target))

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return both figures; groups by accuracy."""
        results = list(results)
        estimates = {"accuracy": mean_of(results)}
        parts = [[r for r in results if r.groups.get("split") == split] for split in SPLITS]
        if all(parts):
            both = [mean_of(part) for part in parts]
            estimates["final"] = Estimate(
                _harmonic(*(share.value for share in both)),
                sum(share.n for share in both),
                _harmonic(*(share.low for share in both)),
                _harmonic(*(share.high for share in both)),
            )
        return figures_of(results, estimates, mean_of)


def _harmonic(*values: float) -> float:
    return 0.0 if min(values) <= 0 else len(values) / sum(1 / value for value in values)


def infoseek_score(answer: Any, target: Any) -> float:
    """Return 1 if an answer is right, else 0.

    Args:
        target: a mapping with ``kind``; of ``numerical`` with ``range``, else with ``answers``.
    """
    if answer is None or not isinstance(target, dict):
        return 0.0
    if target["kind"] == "numerical":
        return float(number_matches(str(answer), target["range"]))
    plain = normal(str(answer))
    return float(any(plain == normal(text) for text in target["answers"]))


def normal(text: str) -> str:
    """Return the text in lower case, without punctuation, articles and extra spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def number_matches(answer: str, bounds: Sequence[float]) -> bool:
    """Return whether an answered number lies in a range, or an answered range agrees with it."""
    low, high = bounds
    numbers = read_numbers(answer)
    if len(numbers) == 1:
        return low <= numbers[0] <= high
    first, second = numbers
    if low <= first <= high and low <= second <= high:
        return True
    shared = max(0.0, min(second, high) - max(first, low))
    # The official scorer's small number avoids a division by 0 for two equal points.
    total = (second - first + 1e-12) + (high - low + 1e-12) - shared
    return (shared / total if total else 0.0) >= TOLERANCE_IOU - 1e-12


def read_numbers(text: str) -> tuple[float, ...]:
    """Return the number in a text, or both ends of a range, rising; (0, 0) without a number.

    Of two numbers that fall the first counts alone.
    """
    numbers = []
    for match in _NUMBER.findall(_DASH.sub(" - ", text)):
        digits = match.replace(",", "").strip(".")
        value = float(digits.split(".")[0] if digits.count(".") > 1 else digits)
        if math.isfinite(value):
            numbers.append(value)
    if not numbers:
        return (0.0, 0.0)
    if len(numbers) > 1 and numbers[0] <= numbers[1]:
        return numbers[0], numbers[1]
    return (numbers[0],)
