"""What candidates answered and measured about the labelled cases, as arrays, and what explains it.

`gather` reads outcomes and labels. `Evidence.hypotheses` orders candidates and rules by their
description length on some cases: the bits that state them and the labels that they get wrong.

Source: description length (Rissanen 1978).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.evaluate.sample_result import Prediction
from viper.jobs.candidates import LEVEL_BITS, Candidate
from viper.jobs.cases import Label, same_answer, words_of
from viper.jobs.likeness import first_picture, pixel_features
from viper.jobs.outcomes import Outcomes
from viper.jobs.rules import Floats, Ints, Measure, Rule, error_bits, find_rules, find_sums
from viper.models.media import media_from
from viper.strategies.base import Components

# Rules of one kind that are compared: more are variants of one another.
_RULES = 6

# Pictures in memory at once.
_TOGETHER = 32

# A rule must save these bits over a written program: it knows nothing of the question's words.
RULE_BITS = 3.0


@dataclass(frozen=True)
class Hypothesis:
    """A candidate, or a rule, that may be the program of the job.

    Attributes:
        total: description length with the labels that it gets wrong, in bits.
        answers: its answer on every case, int [N]; -1 is no answer.
        right: whether that is right, bool [N].
        candidate: number of the candidate; None for a rule.
        level: number of the thresholds under which the rule's measures were taken.
    """

    total: float
    answers: Ints
    right: Any
    candidate: int | None = None
    rule: Rule | None = None
    level: int = 0


@dataclass(frozen=True)
class Evidence:
    """What is known about the labelled cases.

    Attributes:
        cases: ids of the cases.
        candidates: programs in question.
        answers: their answers, int [C, N]: equal numbers of a case are equal answers, -1 is none.
            Answers that are classes have the number of the class.
        right: whether they are right, bool [C, N].
        words: answers by their numbers, the classes first; none if answers are boxes.
        kinds: number of classes.
        classes: right class of each case, int [N]; empty if answers are boxes.
        measures: what ``values`` holds.
        values: measures of each case under the usual thresholds and others, float64 [L, N, F].
        pixels: colors of the pictures, float64 [N, P].
        embedded: the matcher's features of the pictures, float64 [N, D]; None without such.
    """

    cases: Sequence[str]
    candidates: Sequence[Candidate]
    answers: Ints
    right: Any
    words: Sequence[str]
    kinds: int
    classes: Ints
    measures: Sequence[Measure]
    values: Floats
    pixels: Floats
    embedded: Floats | None = None

    @property
    def spaces(self) -> Mapping[str, Floats]:
        """Return the features that neighbours are near by, float64 [N, F], by their names."""
        found = {} if self.embedded is None else {"matcher": self.embedded}
        if self.measures:
            found["counts"] = self.values[0]
        return found or {"colors": self.pixels}

    @cached_property
    def numbers(self) -> Floats | None:
        """Return the right number of each case, float64 [N]; None if not all are numbers."""
        names = self.words[: self.kinds]
        if not names or not all(name.isdecimal() for name in names):
            return None
        return np.array([float(name) for name in names])[self.classes]

    @property
    def _kinds(self) -> int:
        return max(2, self.kinds)

    @cached_property
    def _unseen(self) -> Any:
        """Return bool [C, N]: whether a candidate's writer did not see the label of a case."""
        rows = [[case not in each.seen for case in self.cases] for each in self.candidates]
        return np.array(rows, dtype=bool).reshape(len(self.candidates), len(self.cases))

    def fair_to(
        self, hypotheses: Sequence[Hypothesis], test: Ints
    ) -> list[tuple[Ints, list[Hypothesis]]]:
        """Return parts of test cases, each with the hypotheses that may answer it.

        A case whose label some writer saw is left to programs whose writers saw no label.
        """
        shown = ~self._unseen.all(0)[test]
        blind = [
            h for h in hypotheses if h.candidate is None or not self.candidates[h.candidate].seen
        ]
        parts = [(test[~shown], list(hypotheses)), (test[shown], blind)]
        return [(cases, allowed) for cases, allowed in parts if len(cases)]

    def hypotheses(self, train: Ints | None = None) -> list[Hypothesis]:
        """Return candidates and rules, those with the fewest bits on the cases first.

        Args:
            train: numbers of the cases whose labels may be used; by default all.
        """
        train = np.arange(len(self.cases)) if train is None else train
        found = []
        for number, candidate in enumerate(self.candidates):
            # a case whose label its writer saw proves nothing: it counts like the others
            fair = train[self._unseen[number, train]]
            share = 1 - self.right[number, fair].mean() if len(fair) else 1.0
            bits = error_bits(round(share * len(train)), len(train), self._kinds)
            found.append(
                Hypothesis(candidate.bits + bits, self.answers[number], self.right[number], number)
            )
        found += self._rules(train)
        return sorted(found, key=lambda each: each.total)

    def _rules(self, train: Ints) -> list[Hypothesis]:
        if not len(self.classes):
            return []
        known = np.array([measure.bits for measure in self.measures])
        values, classes = self.values[0][train], self.classes[train]
        if self.numbers is not None:
            constant = find_rules(values[:, :0], classes, self._kinds, known[:0])
            rules = [*constant, *find_sums(values, self.numbers[train], self._kinds)]
        else:
            rules = find_rules(values, classes, self._kinds, known)
        found = []
        for rule in rules[:_RULES]:
            # a program that is no better than the commonest answer has no merit of its words
            is_constant = not rule.tests and not rule.sums
            for level, values in enumerate(self.values[: 1 if is_constant else None]):
                answers, right = self._judged(rule, values)
                wrong = int((~right[train]).sum())
                bits = rule.bits + RULE_BITS * (not is_constant) + LEVEL_BITS * (level > 0)
                total = bits + error_bits(wrong, len(train), self._kinds)
                found.append(Hypothesis(total, answers, right, rule=rule, level=level))
        return found

    def _judged(self, rule: Rule, values: Floats) -> tuple[Ints, Any]:
        """Return a rule's answers, int [N], and whether they are right, bool [N]."""
        if rule.sums:
            assert self.numbers is not None
            numbers = values[:, list(rule.sums)].sum(1)
            known = {word: number for number, word in enumerate(self.words)}
            # numbers that nothing else answers must not meet the numbers of words
            said = [known.get(f"{value:g}", -2 - int(value)) for value in numbers]
            right = numbers == self.numbers
            return np.where(right, self.classes, said), right
        answers = rule.answers(values)
        return answers, answers == self.classes


def gather(
    labels: Sequence[Label],
    outcomes: Outcomes,
    candidates: Sequence[Candidate],
    measures: Sequence[Measure] = (),
    measuring: Sequence[Candidate] = (),
    embedded: Floats | None = None,
) -> Evidence:
    """Return the evidence of candidates that have an outcome of each label.

    Args:
        measuring: programs that measure, one for each choice of thresholds.
    """
    predicted = [outcomes.answers(each.id, labels) for each in candidates]
    right = np.array([[*map(Label.is_right, labels, row)] for row in predicted], dtype=bool)
    right = right.reshape(len(candidates), len(labels))
    is_box = labels[0].task == "ground"
    names = [] if is_box else list(dict.fromkeys(label.words for label in labels))
    numbers = {name: number for number, name in enumerate(names)}
    answers = np.full(right.shape, -1)
    for index, label in enumerate(labels):
        column = [row[index] for row in predicted]
        answers[:, index] = _numbers(column, right[:, index], label, None if is_box else numbers)
    values = np.zeros((max(1, len(measuring)), len(labels), len(measures) if measuring else 0))
    for level, candidate in enumerate(measuring):
        for index, answer in enumerate(outcomes.answers(candidate.id, labels)):
            measured = [float(word) for word in str(answer.value).split()] if answer else []
            if len(measured) == len(measures):
                values[level, index] = measured
    differs = np.flatnonzero(values[0].std(0) > 0).tolist()
    return Evidence(
        cases=[label.case for label in labels],
        candidates=candidates,
        answers=answers,
        right=right,
        words=[*numbers],
        kinds=len(names),
        classes=np.array([names.index(label.words) for label in labels if names], int),
        measures=[measures[i] for i in differs],
        values=values[:, :, differs],
        pixels=np.array([pixel_features(media_from(label.media)) for label in labels]),
        embedded=embedded,
    )


def embeddings(components: Components, labels: Sequence[Label]) -> Floats | None:
    """Return the matcher's features of the first picture of each case, float64 [N, D], or None."""
    models, found = components.toolbox.models, []
    try:
        for first in range(0, len(labels), _TOGETHER):
            some = labels[first : first + _TOGETHER]
            pictures = [first_picture(media_from(label.media)) for label in some]
            found += models.run("matcher", partial(_encoded, pictures))
        return np.array(found)
    except ToolError:  # it has none, or there is no matcher
        return None


def _encoded(pictures: Sequence[Any], matcher: Any) -> list[Any]:
    return list(matcher.encode_images(pictures))


def _numbers(
    column: Sequence[Prediction | None], right: Any, label: Label, known: dict[str, int] | None
) -> list[int]:
    """Return a number for each answer to one case; see :attr:`Evidence.answers`.

    Args:
        known: numbers of words, which new ones are added to; None for boxes, which are grouped.
    """
    boxes: list[Prediction] = []
    numbers = []
    for answer, is_right in zip(column, right, strict=True):
        if answer is None:
            numbers.append(-1)
        elif known is not None:
            word = label.words if is_right else words_of(answer, label)
            numbers.append(known.setdefault(word, len(known)))
        else:
            same = (place for place, box in enumerate(boxes) if same_answer(box, answer, label))
            place = next(same, len(boxes))
            boxes += [answer] * (place == len(boxes))
            numbers.append(-2 - place)
    return numbers
