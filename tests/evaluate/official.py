"""The official counting, restated from its definitions, and real files to count on.

Nothing here shares code with the package: figures are counted from the files' own text.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import string
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("VIPER_DATA") or Path(__file__).parents[3] / "shared" / "data")


def real(name: str) -> Path:
    """A folder of real files; skips the test where there is none."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not here; VIPER_DATA names the folder of real files")
    return path


def nlvr_counts(examples: str, predictions: str) -> tuple[float, float]:
    """Accuracy and consistency of NLVR predictions.

    A prediction is named by its PNG; of the name counts what follows the split, up to the suffix.
    The last one counts. All six pictures of every example must be there.
    """
    said = {}
    for line in predictions.split("\n"):
        if line.strip():
            cells = line.strip().split(",")
            stem = cells[0].partition(".")[0]
            said[stem.partition("-")[2]] = cells[1].casefold()
    right = asked = 0
    whole: dict[str, set[bool]] = {}
    for example in map(json.loads, examples.splitlines()):
        for permutation in range(6):
            hit = said[f"{example['identifier']}-{permutation}"] == example["label"].casefold()
            whole.setdefault(example["identifier"].partition("-")[0], set()).add(hit)
            right, asked = right + hit, asked + 1
    return right / asked, sum(hits == {True} for hits in whole.values()) / len(whole)


def nlvr2_counts(examples: str, predictions: str) -> tuple[float, float]:
    """Accuracy and consistency of NLVR2: a sentence is its set's and its own number."""
    said = dict(line.split(",")[:2] for line in predictions.splitlines())
    labels = {e["identifier"]: e["label"].lower() for e in map(json.loads, examples.splitlines())}
    hits = {name: said[name].lower() == label for name, label in labels.items()}
    sentences = {(*name.split("-")[:2], name.split("-")[3]) for name in hits}
    spoiled = {(*name.split("-")[:2], name.split("-")[3]) for name, hit in hits.items() if not hit}
    return sum(hits.values()) / len(hits), len(sentences - spoiled) / len(sentences)


def nextqa_counts(table: str, predictions: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Right and asked for every type, group and ``overall`` of NExT-QA.

    Right is an index that equals ``answer``; a question about what came before (TP) counts as
    one about what came next (TN).
    """
    count: dict[str, list[int]] = {}
    for row in csv.DictReader(io.StringIO(table)):
        hit = predictions[f"{row['video']}_{row['qid']}"]["prediction"] == int(row["answer"])
        kind = row["type"].replace("TP", "TN")
        for name in (kind, kind[0], "overall"):
            entry = count.setdefault(name, [0, 0])
            entry[0] += hit
            entry[1] += 1
    return {name: (right, asked) for name, (right, asked) in count.items()}


def gqa_count(questions: Mapping[str, Any], predictions: str) -> tuple[int, int]:
    """Right and asked of GQA: the very string of the annotation; the last entry of an id counts."""
    said = {entry["questionId"]: entry["prediction"] for entry in json.loads(predictions)}
    hits = [said[name] == question["answer"] for name, question in questions.items()]
    return sum(hits), len(hits)


# The VQA challenge's contractions; | is the apostrophe that a misspelling lacks.
LACKING = """
ain|t aren|t can|t could|ve couldn|t couldn't|ve couldn|t've didn|t doesn|t don|t hadn|t hadn|t've
hadn't|ve hasn|t haven|t he|d he|d've he'd|ve he|s how|d how|ll how|s isn|t it|d it|d've it'd|ve
it|ll ma|am mightn|t mightn|t've mightn't|ve might|ve mustn|t must|ve needn|t not|ve o|clock
oughtn|t |ow's'at 'ow|s'at 'ow's|at shan|t she|d've she'd|ve should|ve shouldn|t shouldn|t've
shouldn't|ve somebody|d've somebody'd|ve somebody|ll somebody|s someone|d someone|d've
someone'd|ve someone|ll someone|s something|d something|d've something'd|ve something|ll that|s
there|d there|d've there'd|ve there|re there|s they|d they|d've they'd|ve they|ll they|re they|ve
|twas wasn|t we|d've we'd|ve we|ve weren|t what|ll what|re what|s what|ve when|s where|d where|s
where|ve who|d who|d've who'd|ve who|ll who|s who|ve why|ll why|re why|s won|t would|ve wouldn|t
wouldn|t've wouldn't|ve y|all y|all'll y'all|ll y|all'd've y'all|d've y'all'd|ve you|d you|d've
you'd|ve you|ll you|re you|ve
"""
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def without_punctuation(text: str) -> str:
    """Marks become spaces; all of them vanish where a number has a comma, and so does a mark that
    stands beside a space anywhere. Points go, unless a digit follows, 32 at most."""
    has_comma = re.search("[0-9],[0-9]", text)
    made, points = "", 0
    for letter in text:
        if letter in ';/[]"{}()=+\\_-><@`,?!':
            loose = has_comma or letter + " " in text or " " + letter in text
            made += "" if loose else " "
        else:
            made += letter
    kept = ""
    for place, letter in enumerate(made):
        if letter == "." and not made[place + 1 : place + 2].isdigit() and points < 32:
            points += 1
        else:
            kept += letter
    return kept


def vqa_form(text: str) -> str:
    """What the VQA challenge makes of a predicted answer."""
    spelled = {word.replace("|", ""): word.replace("|", "'") for word in LACKING.split()}
    spelled["somebody'd"] = "somebodyd"  # the wrong way round, in the published list
    words = []
    for word in without_punctuation(re.sub(r"[\n\t]", " ", text).strip()).lower().split():
        word = "0" if word == "none" else word
        word = str(DIGITS.index(word)) if word in DIGITS else word
        if word not in ("a", "an", "the"):
            words.append(spelled.get(word, word))
    return " ".join(words)


def vqa_accuracy(prediction: str, answers: Sequence[str]) -> Fraction:
    """Accuracy of the VQA challenge: the mean over all groups of one annotator less.

    Annotations lose punctuation unless all annotators wrote the same; nothing else is done to them.
    """
    said = vqa_form(prediction)
    if any(answer != answers[0] for answer in answers):
        answers = [without_punctuation(answer) for answer in answers]
    groups = list(combinations(answers, len(answers) - 1))
    total = sum((min(Fraction(1), Fraction(g.count(said), 3)) for g in groups), Fraction())
    return total / len(groups)


_NUMBER = re.compile(
    r"""[-+]? [.]? [0-9]+  # digits, perhaps behind a point
    (?:,[0-9]{3})* [.]? [0-9]*  # thousands, decimals
    (?:[eE][-+]?[0-9]+)?""",
    re.VERBOSE,
)


def infoseek_hit(prediction: str, question: Mapping[str, Any]) -> bool:
    """Whether InfoSeek counts a prediction: its words equal an accepted answer, or for a number, it
    lies in the range, or is a range within it, or of at least half its union with it."""
    accepted = question["answer_eval"]
    if question["question_type"] != "Numerical":

        def words(text: str) -> list[str]:
            plain = "".join(letter for letter in text.lower() if letter not in string.punctuation)
            return re.sub(r"\b(a|an|the)\b", " ", plain).split()

        return any(words(prediction) == words(answer) for answer in accepted)
    low, high = accepted[0]["range"]
    apart = re.sub("(?<=[0-9])-", " - ", prediction)
    numbers = [float(each.replace(",", "").strip(".")) for each in _NUMBER.findall(apart)][:2]
    numbers = numbers or [0.0, 0.0]
    if len(numbers) < 2 or numbers[0] > numbers[1]:
        return low <= numbers[0] <= high
    start, end = numbers
    if low <= start and end <= high:
        return True
    shared = max(0.0, min(end, high) - max(start, low))
    union = end - start + high - low - shared
    return union > 0 and shared / union >= 0.5 - 1e-9


def infoseek_vqa_hit(prediction: str, question: Mapping[str, Any]) -> bool:
    """The same, with words in the VQA challenge's form on both sides."""
    if question["question_type"] == "Numerical":
        return infoseek_hit(prediction, question)
    return any(vqa_form(prediction) == vqa_form(answer) for answer in question["answer_eval"])
