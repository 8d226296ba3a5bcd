"""Selects and sorts examples from the programs that were run on labelled samples.

Source: Stanić et al. 2024, sec. 2.3: sort by score, keep the best. Differs: types of query take
turns and near-duplicates come last, because a handful of examples should differ. Programs that
were right by luck can be left out.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import Literal

from viper.agreement import is_correct, normalise_answer, same_box
from viper.errors import PARSE_ERRORS
from viper.schema import Example, PixelBox

# Key of similar examples: task, API, type of query, shape of program.
Sort = tuple[str, ...]

# Success rate of each sort, by :func:`supports`; None ignores it.
Support = Mapping[Sort, float] | None

# An answer in the form that is compared: a text, or a box.
Answered = str | PixelBox


@dataclass(frozen=True)
class Candidate:
    """One program that was run on one labelled sample.

    Attributes:
        example: the program as an example, with its score by the data set's metric.
        answer: the program's answer; None if it gave none.
    """

    example: Example
    answer: Answered | None


@dataclass(frozen=True)
class Selection:
    """Settings for choosing examples.

    Attributes:
        keep: most examples for each task and API.
        agree: leave out programs that may be right by luck (:func:`confirmed`), and prefer programs
            that did well on other samples too (:func:`supports`).
        at_random: choose randomly among all programs that gave an answer, regardless of score; the
            ablation of "the best-performing programs".
        seed: random seed of that choice.
    """

    keep: int = 16
    agree: bool = False
    at_random: bool = False
    seed: int = 0


def select(candidates: Sequence[Candidate], selection: Selection) -> list[Example]:
    """Select one example per sample, by merit; see :func:`best_first`."""
    if selection.at_random:
        random = Random(selection.seed)
        by_sample: dict[tuple[str, str], list[Example]] = defaultdict(list)
        for each in candidates:
            if each.answer is not None:
                by_sample[each.example.api, each.example.sample_id].append(each.example)
        examples = [random.choice(group) for _, group in sorted(by_sample.items())]
        random.shuffle(examples)
        return kept(examples, selection.keep)
    right = [candidate for candidate in candidates if _right(candidate)]
    support = None
    if selection.agree:
        right, support = confirmed(right, candidates), supports(candidates)
    examples = one_a_sample((each.example for each in right), support)
    return kept(best_first(examples, support), selection.keep)


def confirmed(right: Sequence[Candidate], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the right programs that have further support. One of these conditions is enough:

    - a program of the same shape (see :func:`shape`) was right on another sample of the same
      task and type of query;
    - several programs were drawn for the sample, and more than half of them, counting failed ones,
      gave the same answer.

    Args:
        right: the candidates that were right.
        candidates: all of them, also those without an answer.
    """
    elsewhere = defaultdict(set)
    for candidate in right:
        elsewhere[_sort_of(candidate.example)].add(candidate.example.sample_id)
    of_sample = defaultdict(list)
    for candidate in candidates:
        of_sample[candidate.example.api, candidate.example.sample_id].append(candidate.answer)

    def speaks(candidate: Candidate) -> bool:
        example = candidate.example
        if elsewhere[_sort_of(example)] - {example.sample_id}:
            return True
        answers = of_sample[example.api, example.sample_id]
        agreeing = sum(same_answer(candidate.answer, other) for other in answers)
        return len(answers) > 1 and 2 * agreeing > len(answers)

    return [candidate for candidate in right if speaks(candidate)]


def supports(candidates: Iterable[Candidate]) -> dict[Sort, float]:
    """Return the success rate of each program shape on its type of query.

    The rate is the number of samples that the shape solved, divided by the number of samples that
    it was drawn for plus two. The two extra samples keep the rate low if there are few samples. A
    shape that is only sometimes right by luck gets a low rate, however short its program is.
    """
    ids_of: dict[Sort, set[str]] = defaultdict(set)
    right: dict[Sort, set[str]] = defaultdict(set)
    for candidate in candidates:
        sort = _sort_of(candidate.example)
        ids_of[sort].add(candidate.example.sample_id)
        if _right(candidate):
            right[sort].add(candidate.example.sample_id)
    return {sort: len(right[sort]) / (len(sample_ids) + 2) for sort, sample_ids in ids_of.items()}


def best_first(examples: Iterable[Example], support: Support = None) -> list[Example]:
    """Return the examples by merit, taking types of query in turn.

    Merit is the score, then the support, then the shorter program, then the earlier seed. Of
    examples that differ only in string literals (the same type of query, the same shape of
    program), all but the best come after everything else.

    Args:
        support: result of :func:`supports`; None ignores support.
    """
    ranked = sorted(examples, key=lambda example: (*_merit(example, support), example.sample_id))
    shapes: Counter[tuple[str, ...]] = Counter()
    turns: Counter[tuple[object, ...]] = Counter()
    placed = []
    for example in ranked:
        sort = _sort_of(example)
        repeats = shapes[sort]
        shapes[sort] += 1
        turn = (example.task, example.api, example.kind, repeats)
        placed.append((repeats, turns[turn], example))
        turns[turn] += 1
    return [example for *_, example in sorted(placed, key=lambda place: place[:2])]


def kept(examples: Iterable[Example], keep: int) -> list[Example]:
    """Return the first ``keep`` examples of each task and API."""
    counts: Counter[tuple[str, str]] = Counter()
    examples_kept = []
    for example in examples:
        counts[example.task, example.api] += 1
        if counts[example.task, example.api] <= keep:
            examples_kept.append(example)
    return examples_kept


def one_a_sample(examples: Iterable[Example], support: Support = None) -> list[Example]:
    """Return the best example of each sample; see :func:`best_first`."""
    best: dict[tuple[str, str], Example] = {}
    for example in sorted(examples, key=lambda example: _merit(example, support)):
        best.setdefault((example.api, example.sample_id), example)
    return list(best.values())


def shape(program: str) -> str:
    """Return a program's syntax tree without the words of its strings. Numbers and indices stay.

    A program that does not parse is its own shape.
    """
    try:
        tree = ast.parse(program)
    except PARSE_ERRORS:
        return program
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def same_answer(first: Answered | None, second: Answered | None) -> bool:
    """Return whether two answers agree: equal normalised words, or boxes with an IoU of 0.5."""
    if first is None or second is None:
        return False
    if isinstance(first, str) or isinstance(second, str):
        both = isinstance(first, str) and isinstance(second, str)
        return both and normalise_answer(first) == normalise_answer(second)
    return same_box(first, second)


def _right(candidate: Candidate) -> bool:
    return candidate.answer is not None and is_correct(candidate.example.score)


def _merit(example: Example, support: Support) -> tuple[float, float, int, int]:
    """Return a sort key that is small for good examples."""
    supported = 0.0 if support is None else support.get(_sort_of(example), 0.0)
    return (-example.score, -supported, len(example.program), example.seed)


def _sort_of(example: Example) -> Sort:
    return (example.task, example.api, example.kind, shape(example.program))


def diverse(examples: Iterable[Example]) -> list[Example]:
    """Return the examples in an order in which each differs most from all before it.

    Kinds of query take turns. Within a kind, new shapes of program (:func:`shape`) come first, then
    the query that shares the smallest part of its words with any query before it, then the shorter
    program, then the smaller sample id.
    """
    left = [
        (example, shape(example.program), set(normalise_answer(example.query).split()))
        for example in examples
    ]
    kinds: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    likest = [0.0] * len(left)
    placed: list[Example] = []

    def rank(n: int) -> tuple[int, int, float, int, str]:
        example, program_shape, _ = left[n]
        repeats = kinds[example.kind], shapes[program_shape]
        return (*repeats, likest[n], len(example.program), example.sample_id)

    while left:
        place = min(range(len(left)), key=rank)
        chosen, program_shape, words = left.pop(place)
        del likest[place]
        kinds[chosen.kind] += 1
        shapes[program_shape] += 1
        for n, (_, _, others) in enumerate(left):
            share = len(words & others) / len(words | others) if words | others else 1.0
            likest[n] = max(likest[n], share)
        placed.append(chosen)
    return placed


# The kind of examples that were kept by agreement.
DESCRIPTION = "sheet"


@dataclass(frozen=True)
class AgreementResult:
    """The example of a query, or the reason why it has none.

    Attributes:
        why: ``agreed``; ``unanswered``: no program answered on any medium; ``disagreed``: too few
            programs gave the same answer; ``unasked``: no program was drawn.
    """

    example: Example | None
    why: Literal["agreed", "unanswered", "disagreed", "unasked"]


def agreed(media: Sequence[Sequence[Candidate]], at_least: int) -> AgreementResult:
    """Return the program that represents the agreed answer to a query.

    Candidates are the programs that gave the most common answer of a medium, if at least
    ``at_least`` programs gave it. The program with the most common shape among them wins, then the
    shorter program, then the earlier seed. Its score is the share of programs that gave the most
    common answer, averaged over media. Media without any answer are left out, because the query may
    not apply to them.

    Args:
        media: the programs drawn on each medium, including failed ones.
        at_least: number of programs that must agree, 2 or more.
    """
    commonest, shares = [], []
    for programs in media:
        answered = [each for each in programs if _says_something(each.answer)]
        groups = ([o for o in answered if same_answer(one.answer, o.answer)] for one in answered)
        group = max(groups, key=len, default=[])  # of equal groups the first
        if group:
            commonest.append(group)
            shares.append(len(group) / len(programs))
    agreeing = [candidate for group in commonest if len(group) >= at_least for candidate in group]
    if not agreeing:
        unanswered: Literal["unanswered", "unasked"] = "unanswered" if any(media) else "unasked"
        return AgreementResult(None, "disagreed" if commonest else unanswered)
    shapes = Counter(shape(candidate.example.program) for candidate in agreeing)

    def rank(candidate: Candidate) -> tuple[int, int, int]:
        program = candidate.example.program
        return -shapes[shape(program)], len(program), candidate.example.seed

    best = min(agreeing, key=rank)
    return AgreementResult(replace(best.example, score=round(fmean(shares), 4)), "agreed")


def _says_something(answer: Answered | None) -> bool:
    return answer is not None and (not isinstance(answer, str) or bool(normalise_answer(answer)))
