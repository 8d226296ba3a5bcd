"""Which of the programs that were run on labelled samples become examples, and in which order.

Source: Stanić et al. 2024, sec. 2.3: sort by score, keep the best. Differs: types of query take
turns and near-duplicates come last, since a handful of examples should differ; and programs that
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

from viper.agreement import box_iou, normalise_answer
from viper.schema import Example, PixelBox

RIGHT = 0.5
"""A score above it counts as right."""

_SAME_BOX = 0.5
"""Boxes that overlap by at least this IoU are one answer."""

Sort = tuple[str, ...]
"""What makes examples alike: task, API, type of query, shape of program."""

Answered = str | PixelBox
"""An answer as answers are compared: normalised words, or a box."""


@dataclass(frozen=True)
class Candidate:
    """One program that was run on one labelled sample.

    Attributes:
        example: what it would be as an example; its score is that of the data set's metric.
        answer: what it answered; None where it gave no answer.
    """

    example: Example
    answer: Answered | None


@dataclass(frozen=True)
class Selection:
    """How examples are chosen.

    Attributes:
        keep: examples for each task and API at most.
        agree: leave out what may have been right by luck, see :func:`confirmed`, and put first
            what did well on other samples too, see :func:`supports`.
        at_random: any programs that gave an answer, whatever they scored; the ablation of
            "the best-performing programs".
        seed: of the random choice.
    """

    keep: int = 16
    agree: bool = False
    at_random: bool = False
    seed: int = 0


def select(candidates: Sequence[Candidate], selection: Selection) -> list[Example]:
    """Select one example per sample, by merit; see :func:`best_first`."""
    if selection.at_random:
        return _at_random(candidates, selection)
    right = [one for one in candidates if _right(one)]
    if not selection.agree:
        return kept(best_first(one_a_sample(one.example for one in right)), selection.keep)
    borne_out = supports(candidates)
    examples = one_a_sample((one.example for one in confirmed(right, candidates)), borne_out)
    return kept(best_first(examples, borne_out), selection.keep)


def confirmed(right: Sequence[Candidate], drawn: Sequence[Candidate]) -> list[Candidate]:
    """Return the right programs that have further support. One of these is enough:

    - a program of the same shape (see :func:`shape`) was right on another sample of the same
      task and type of query;
    - several programs were drawn for the sample, and more than half of them, those that failed
      counted among them, gave the same answer.

    Args:
        right: the candidates that were right.
        drawn: all candidates, also those without an answer.
    """
    elsewhere = defaultdict(set)
    for one in right:
        elsewhere[_sort_of(one.example)].add(one.example.sample_id)
    of_sample = defaultdict(list)
    for one in drawn:
        of_sample[one.example.api, one.example.sample_id].append(one.answer)

    def speaks(one: Candidate) -> bool:
        example = one.example
        if elsewhere[_sort_of(example)] - {example.sample_id}:
            return True
        answers = of_sample[example.api, example.sample_id]
        agreeing = sum(same_answer(one.answer, other) for other in answers)
        return len(answers) > 1 and 2 * agreeing > len(answers)

    return [one for one in right if speaks(one)]


def supports(drawn: Iterable[Candidate]) -> dict[Sort, float]:
    """Return the success of each program shape on its type of query: the samples it solved, divided
    by all samples it was drawn for plus two (few samples say little).

    A reading of a query that is right by luck now and then stays low, however short its program.
    """
    tried: dict[Sort, set[str]] = defaultdict(set)
    right: dict[Sort, set[str]] = defaultdict(set)
    for one in drawn:
        sort = _sort_of(one.example)
        tried[sort].add(one.example.sample_id)
        if _right(one):
            right[sort].add(one.example.sample_id)
    return {sort: len(right[sort]) / (len(its) + 2) for sort, its in tried.items()}


def best_first(
    examples: Iterable[Example], support: Mapping[Sort, float] | None = None
) -> list[Example]:
    """Return the examples by merit, taking types of query in turn. Merit is the score, then the
    shorter program, then the earlier seed.

    Types of query take turns, and of examples that differ by string literals only (the same type
    of query, the same shape of program) all but the best come after everything else.

    Args:
        support: of :func:`supports`; of equal scores the best supported comes first then.
    """
    ranked = sorted(examples, key=lambda one: (*_merit(one, support), one.sample_id))
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


def one_a_sample(
    examples: Iterable[Example], support: Mapping[Sort, float] | None = None
) -> list[Example]:
    """Return the best example of each sample; see :func:`best_first`."""
    best: dict[tuple[str, str], Example] = {}
    for example in sorted(examples, key=lambda one: _merit(one, support)):
        best.setdefault((example.api, example.sample_id), example)
    return list(best.values())


def shape(program: str) -> str:
    """Return a program's syntax tree without the words of its strings. Numbers and indices stay.

    A program that does not parse is its own shape.
    """
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError):
        return program
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def same_answer(first: Answered | None, second: Answered | None) -> bool:
    """Return whether two answers agree: equal words once normalised, or boxes that overlap by
    half."""
    if first is None or second is None:
        return False
    if isinstance(first, str) or isinstance(second, str):
        both = isinstance(first, str) and isinstance(second, str)
        return both and normalise_answer(first) == normalise_answer(second)
    return box_iou(first, second) >= _SAME_BOX


def _at_random(candidates: Sequence[Candidate], selection: Selection) -> list[Example]:
    random = Random(selection.seed)
    by_sample: dict[tuple[str, str], list[Example]] = defaultdict(list)
    for one in candidates:
        if one.answer is not None:
            by_sample[one.example.api, one.example.sample_id].append(one.example)
    one_each = [random.choice(examples) for _, examples in sorted(by_sample.items())]
    random.shuffle(one_each)
    return kept(one_each, selection.keep)


def _right(one: Candidate) -> bool:
    return one.answer is not None and one.example.score > RIGHT


def _merit(one: Example, support: Mapping[Sort, float] | None) -> tuple[float, float, int, int]:
    """Return a sort key that is small for good examples."""
    supported = 0.0 if support is None else support.get(_sort_of(one), 0.0)
    return (-one.score, -supported, len(one.program), one.seed)


def _sort_of(example: Example) -> Sort:
    return (example.task, example.api, example.kind, shape(example.program))


def diverse(examples: Iterable[Example]) -> list[Example]:
    """Return the examples in an order in which each differs most from all before it.

    Kinds of query take turns; within a kind a shape of program that was not there yet comes
    first (see :func:`viper.ace.select.shape`), then the query that shares the smallest part of
    its words with any before it, then the shorter program, then the earlier sample id.
    """
    left = [
        (one, shape(one.program), frozenset(normalise_answer(one.query).split()))
        for one in examples
    ]
    kinds: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    likest = [0.0] * len(left)
    placed: list[Example] = []
    while left:
        place = min(
            range(len(left)),
            key=lambda n: (
                kinds[left[n][0].kind],
                shapes[left[n][1]],
                likest[n],
                len(left[n][0].program),
                left[n][0].sample_id,
            ),
        )
        chosen, its_shape, words = left.pop(place)
        likest.pop(place)
        kinds[chosen.kind] += 1
        shapes[its_shape] += 1
        likest = [
            max(so_far, _likeness(words, others))
            for so_far, (_, _, others) in zip(likest, left, strict=True)
        ]
        placed.append(chosen)
    return placed


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of words that two queries have in common, in [0, 1]."""
    return len(one & other) / len(one | other) if one | other else 1.0


SHEET = "sheet"
"""The kind of examples that were kept by agreement."""


@dataclass(frozen=True)
class AgreementResult:
    """What became of a query: its example, or why it has none.

    Attributes:
        why: ``agreed``; ``unanswered``: no program answered on any medium; ``disagreed``: too few
            gave the same answer; ``unasked``: no program was drawn.
    """

    example: Example | None
    why: Literal["agreed", "unanswered", "disagreed", "unasked"]


def agreed(media: Sequence[Sequence[Candidate]], at_least: int) -> AgreementResult:
    """Return the program that represents the agreed answer to a query.

    It is one of those that gave the commonest answer on a medium where at least so many gave it;
    of these one whose shape is the commonest among them over all such media, then the shorter
    program, then the earlier seed. Its score is the share of programs that gave the commonest
    answer, the mean over media; media on which no program answered are left out, since the query
    need not apply to them.

    Args:
        media: the programs drawn on each medium, failed ones among them.
        at_least: how many have to agree, 2 or more.
    """
    drawn = [list(programs) for programs in media if programs]
    commonest = [_commonest(programs) for programs in drawn]
    agreeing = [one for group in commonest if len(group) >= at_least for one in group]
    if not agreeing:
        answered = any(commonest)
        return AgreementResult(
            None, "disagreed" if answered else "unanswered" if drawn else "unasked"
        )
    shapes = Counter(shape(one.example.program) for one in agreeing)

    def rank(one: Candidate) -> tuple[int, int, int]:
        program = one.example.program
        return -shapes[shape(program)], len(program), one.example.seed

    shares = [
        len(group) / len(programs)
        for group, programs in zip(commonest, drawn, strict=True)
        if group
    ]
    best = min(agreeing, key=rank)
    return AgreementResult(replace(best.example, score=round(fmean(shares), 4)), "agreed")


def _commonest(programs: Sequence[Candidate]) -> list[Candidate]:
    """Return the largest group of programs that agree with one of them. Of equal groups the
    earliest wins."""
    answering = [one for one in programs if _says_something(one.answer)]
    groups = ([o for o in answering if same_answer(one.answer, o.answer)] for one in answering)
    return max(groups, key=len, default=[])


def _says_something(answer: Answered | None) -> bool:
    return answer is not None and (not isinstance(answer, str) or bool(normalise_answer(answer)))
