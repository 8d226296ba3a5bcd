"""Questions about knowledge, with the official scorers: OK-VQA and InfoSeek.

OK-VQA counts soft accuracy against ten annotators, as the VQA challenges do. InfoSeek matches texts
exactly, numbers by a range, and dates as the annotators spell them. Source: ``infoseek_eval.py``
(Chen et al. 2023). Differs: what no float can hold counts as no number.

Each official figure stands beside ours; :func:`official_soft_accuracy` and
:class:`InfoSeekAccuracy` say what differs.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from viper.agreement import ARTICLES, NUMBERS
from viper.data.sample import Sample
from viper.evaluate.intervals import Estimate
from viper.evaluate.metrics.figures import Figures, Results, beside, figures_of, mean_of
from viper.evaluate.sample_result import Prediction, SampleResult, Score

_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_POINT = re.compile(r"\.(?!\d)")
_DIGIT_COMMA = re.compile(r"\d,\d")
_NUMBER_WORDS = {**NUMBERS, "none": "0"}
_PROPER = """
ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't
haven't he'd he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am might've mightn't
mightn't've must've mustn't needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've
shouldn't shouldn't've somebody'd've somebody'll somebody's someone'd someone'd've
someone'll someone's something'd something'd've something'll that's there'd there'd've there're
there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll
what're what's what've when's where'd where's where've who'd who'd've who'll who's who've why'll
why're why's won't would've wouldn't wouldn't've y'all y'all'd've y'all'll you'd you'd've you'll
you're you've
"""


# Misspelling, with one of the apostrophes left out, to proper form.
#
# Source: the VQA challenge's list. Those whose misspelling is a word of its own (its, were, shed,
# well, ill) are not in it; neither are those with I, which its code never reaches, comparing
# capitals with lower case. The list takes the apostrophe away from one word, somebody'd.
_CONTRACTIONS = {
    word[:place] + word[place + 1 :]: word
    for word in _PROPER.split()
    for place, letter in enumerate(word)
    if letter == "'"
} | {"somebody'd": "somebodyd"}

# Points that the official code removes at most: a flag of 32 stands there in the place of a count.
_MOST_POINTS = 32


class OKVQA:
    """``soft_accuracy``, ``official_soft_accuracy``, and ``soft_accuracy_stemmed``.

    Source and differences: :func:`soft_accuracy` and :func:`official_soft_accuracy`. The stemmed
    figure is for comparing with peers that stem; ours stems predictions and targets.
    """

    name = "okvqa"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return the soft accuracy; in the details the official one, and ``stemmed``."""
        answer = None if prediction is None else prediction.value
        answers = [sample.target] if isinstance(sample.target, str) else list(sample.target)
        details = {
            "official_soft_accuracy": official_soft_accuracy(answer, answers),
            "stemmed": soft_accuracy(answer, answers, stemmed),
        }
        return Score(soft_accuracy(answer, answers), details)

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return all figures; groups by soft accuracy."""
        results = Results.of(results)
        estimates = {
            "soft_accuracy": mean_of(results),
            **beside(results, "official_soft_accuracy", mean_of),
            "soft_accuracy_stemmed": mean_of(results, "stemmed"),
        }
        return figures_of(results, estimates, mean_of)


def soft_accuracy(
    prediction: Any, answers: Sequence[str], normalise: Callable[[Any], str] | None = None
) -> float:
    """Return the mean of ``min(1, matches / 3)`` over all subsets without one annotator.

    With ten annotators and 0, 1, 2, 3, 4 matches: 0, 0.3, 0.6, 0.9, 1. A single annotator
    cannot be left out: then it is an exact match.
    Source: Antol et al. 2015, sec. 3. Differs: both sides are normalised alike, whether or not the
    annotators agree; :func:`official_soft_accuracy` does not; ViperGPT stems the prediction and
    not the targets.

    Args:
        prediction: the answer; None or nothing left of it scores 0.
        answers: one text of each annotator.
        normalise: applied to both sides; by default :func:`vqa_normalised`.
    """
    normalise = normalise or vqa_normalised
    text = "" if prediction is None else normalise(prediction)
    if not text:
        return 0.0
    return _left_one_out(sum(normalise(answer) == text for answer in answers), len(answers))


def official_soft_accuracy(prediction: Any, answers: Sequence[str]) -> float:
    """Return the soft accuracy with the processing of the VQA challenge's evaluation code.

    The prediction is processed in full. Annotations keep their number words, articles, capitals
    and missing apostrophes, so an annotated ``two`` or ``a cat`` is never matched; they lose only
    punctuation, and not even that where all annotators agree.

    Source: ``vqaEval.py`` of the VQA challenge (Antol et al. 2015), which OK-VQA (Marino et al.
    2019) uses. Differs: without a prediction the score is 0, where the code stops.
    """
    if prediction is None:
        return 0.0
    texts = answers if len(set(answers)) < 2 else [_unpunctuated(answer) for answer in answers]
    return _left_one_out(list(texts).count(vqa_normalised(prediction)), len(texts))


def _left_one_out(matches: int, total: int) -> float:
    """Return the mean of ``min(1, matches / 3)`` over all subsets without one annotator."""
    if total < 2:
        return float(matches)
    # A subset without a matching annotator has one match less.
    thirds = matches * min(3, matches - 1) + (total - matches) * min(3, matches)
    return thirds / (3 * total)


def vqa_normalised(answer: Any) -> str:
    """Return an answer in the VQA challenge's form.

    Punctuation goes (between words it becomes a space; next to a space, or where the text has
    a number with a comma, it vanishes), points go unless a digit follows, lower case, ``none``
    and zero to ten become digits, articles go, apostrophes that were left out come back
    (``dont`` to ``don't``). Nothing is stemmed. Truth values are ``yes`` and ``no``.
    """
    if isinstance(answer, bool):
        answer = "yes" if answer else "no"
    text = str(answer).replace("\n", " ").replace("\t", " ").strip()
    words = _unpunctuated(text).lower().split()
    numbered = [_NUMBER_WORDS.get(word, word) for word in words]
    return " ".join(_CONTRACTIONS.get(word, word) for word in numbered if word not in ARTICLES)


def _unpunctuated(whole: str) -> str:
    text, joins = whole, _DIGIT_COMMA.search(whole) is not None
    for mark in _PUNCTUATION:
        beside_space = f"{mark} " in whole or f" {mark}" in whole
        text = text.replace(mark, "" if beside_space or joins else " ")
    return _POINT.sub("", text, count=_MOST_POINTS)


def stemmed(answer: Any) -> str:
    """Return the word stems of :func:`vqa_normalised`. Stem both sides of a comparison."""
    return " ".join(_stemmer().stemWords(vqa_normalised(answer).split()))


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("porter")


SPLITS = ("unseen_question", "unseen_entity")

# Least overlap of an answered range with the right one, if it is not within it; the official
# scorer's value.
TOLERANCE_IOU = 0.5

_ARTICLE_WORDS = re.compile(r"\b(?:a|an|the)\b")
_NUMBER = re.compile(r"[-+]?\.?\d+(?:,\d\d\d)*\.?\d*(?:[eE][-+]?\d+)?")
_DASH = re.compile(r"(?<=\d)-")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class InfoSeekAccuracy:
    """``accuracy``, ``vqa_accuracy``, and ``final``: the harmonic mean over both unseen splits.

    ``final`` needs both splits. Its interval comes from the splits' lower and upper ends, which
    makes it slightly too wide. ``accuracy`` and ``final`` are those of the official scorer.

    ``vqa_accuracy`` compares texts and dates in the VQA challenge's form, which is the metric that
    Chen et al. 2023 and AVIS (Hu et al. 2023, sec. 4) name; numbers count by range as before.
    Differs: both sides are processed, because annotated names have capitals, and one accepted
    answer is enough, because an annotation is not the vote of an annotator.
    """

    name = "infoseek"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return 1 if the answer is right, else 0; ``vqa_accuracy`` in the details."""
        answer = None if prediction is None else prediction.value
        details = {"vqa_accuracy": infoseek_score(answer, sample.target, vqa_normalised)}
        return Score(infoseek_score(answer, sample.target), details)

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return all figures; groups by accuracy."""
        results = Results.of(results)
        estimates = {"accuracy": mean_of(results), **beside(results, "vqa_accuracy", mean_of)}
        column = results.columns["groups"]
        splits = column.of([str(dict(groups).get("split")) for groups in column.values])
        parts = [results.select(splits == split) for split in SPLITS]
        if all(parts):
            first, second = (mean_of(part) for part in parts)
            estimates["final"] = Estimate(
                _harmonic(first.value, second.value),
                first.n + second.n,
                _harmonic(first.low, second.low),
                _harmonic(first.high, second.high),
            )
        return figures_of(results, estimates, mean_of)


def _harmonic(*values: float) -> float:
    return 0.0 if min(values) <= 0 else len(values) / sum(1 / value for value in values)


def infoseek_score(
    answer: Any, target: Any, normalise: Callable[[str], str] | None = None
) -> float:
    """Return 1 if an answer is right, else 0.

    Args:
        target: a mapping with ``kind``; of ``numerical`` with ``range``, else with ``answers``.
        normalise: applied to both sides where texts are compared; by default :func:`normal`.
    """
    if answer is None or not isinstance(target, dict):
        return 0.0
    normalise = normalise or normal
    if target["kind"] != "numerical":
        plain = normalise(str(answer))
        return float(any(plain == normalise(text) for text in target["answers"]))
    low, high = target["range"]
    first, *others = read_numbers(str(answer))
    if not others:
        return float(low <= first <= high)
    # An answered range may lie within the right one, or overlap it enough.
    (second,) = others
    if low <= first <= high and low <= second <= high:
        return 1.0
    shared = max(0.0, min(second, high) - max(first, low))
    # The official scorer's small number avoids a division by 0 for two equal points.
    total = (second - first + 1e-12) + (high - low + 1e-12) - shared
    return float((shared / total if total else 0.0) >= TOLERANCE_IOU - 1e-12)


def normal(text: str) -> str:
    """Return the text in lower case, without punctuation, articles and extra spaces."""
    return " ".join(_ARTICLE_WORDS.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def read_numbers(text: str) -> tuple[float, ...]:
    """Return the number in a text, or both ends of a range, rising; (0, 0) without a number.

    Of two numbers that fall the first counts alone.
    """
    numbers = []
    for match in _NUMBER.findall(_DASH.sub(" - ", text)):
        digits = match.replace(",", "").strip(".")
        digits = digits.split(".")[0] if digits.count(".") > 1 else digits
        # the official code stops at a lone sign, as of -.5.5
        if digits.strip("+-") and math.isfinite(value := float(digits)):
            numbers.append(value)
    if not numbers:
        return (0.0, 0.0)
    if len(numbers) > 1 and numbers[0] <= numbers[1]:
        return numbers[0], numbers[1]
    return (numbers[0],)
