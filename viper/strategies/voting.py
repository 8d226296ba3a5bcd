"""Answers one query several times; the most frequent answer wins.

:func:`answer_by_vote` holds the rounds, :func:`groups_of` groups their answers, :func:`is_decided`
ends it early, and :func:`with_winner` lets the largest group answer.

Source: self-consistency (Wang et al. 2023, "Self-Consistency Improves Chain of Thought Reasoning in
Language Models"), which takes the commonest of several sampled answers. Differs: programs are
sampled, not reasons; boxes agree by overlap; a round that cannot change the winner is not run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from viper.agreement import SAME_BOX, box_iou, normalise_answer
from viper.schema import Answer, Trial
from viper.strategies.base import Conclusion, StoppedError, Trials
from viper.strategies.settings import RunSettings

# Least number of programs that are written for verification: of two, none has a majority.
LEAST_CANDIDATES = 3

# A vote is one line on the terminal.
_LONGEST_TEXT = 80

# Answers the query once more; the argument is the number of earlier rounds.
# It returns the trial that answered, possibly of an earlier round, or None.
Round = Callable[[int], Generator[Trial, None, Trial | None]]

# Indices of votes that agree, the earliest first.
Group = tuple[int, ...]


def answer_by_vote(settings: RunSettings, answer_once: Round) -> Trials:
    """Yield the trials of as many rounds as needed; the conclusion names the winner.

    A round without an answer casts no vote. The rounds end if a further one cannot change the
    winner, or if the strategy cannot go on. For verification, all rounds are held.
    """
    rounds = max(settings.votes, LEAST_CANDIDATES if settings.verify else 1)
    ballots: list[Trial] = []
    stopped = None
    for number in range(rounds):
        try:
            trial = yield from answer_once(number)
        except StoppedError as stop:
            stopped = stop.failure
            break
        if trial is not None:
            ballots.append(trial)
        left = rounds - number - 1
        if not settings.verify and is_decided(groups_of(answers_of(ballots)), left):
            break
    conclusion = Conclusion(stopped=stopped, ballots=tuple(ballots))
    return with_winner(conclusion, groups_of(answers_of(ballots))) if ballots else conclusion


def with_winner(conclusion: Conclusion, groups: Sequence[Group]) -> Conclusion:
    """Return the conclusion that lets the first group of the ballots answer."""
    answers = answers_of(conclusion.ballots)
    best = [central(answers, group) for group in groups]
    votes = ((short_text(answers[i]), len(group)) for i, group in zip(best, groups, strict=True))
    return replace(conclusion, chosen=conclusion.ballots[best[0]].index, votes=tuple(votes))


def answers_of(ballots: Sequence[Trial]) -> list[Answer]:
    return [trial.answer for trial in ballots if trial.answer is not None]


def groups_of(answers: Sequence[Answer]) -> list[Group]:
    """Group the answers that agree: the largest group first; of equal sizes, that with the earliest
    answer.
    """
    groups: list[Group] = []
    if not all(answer.box is not None for answer in answers):
        by_key: dict[Any, list[int]] = {}
        for index, answer in enumerate(answers):
            by_key.setdefault(answer_key(answer), []).append(index)
        groups = [tuple(indices) for indices in by_key.values()]
        return sorted(groups, key=_rank)
    remaining = list(range(len(answers)))
    while remaining:
        # the box that most others agree with, together with these
        neighbours = [
            tuple(
                other
                for other in remaining
                if other == index or _overlap(answers[index], answers[other]) >= SAME_BOX
            )
            for index in remaining
        ]
        groups.append(min(neighbours, key=_rank))
        remaining = [index for index in remaining if index not in groups[-1]]
    return sorted(groups, key=_rank)


def central(answers: Sequence[Answer], group: Group) -> int:
    """Return the index that represents a group: its first answer, or the box with most overlap."""
    if answers[group[0]].box is None:
        return group[0]
    return max(group, key=lambda i: sum(_overlap(answers[i], answers[other]) for other in group))


def is_decided(groups: Sequence[Group], left: int) -> bool:
    """Return whether the first group wins even if all ``left`` votes go to any other group.

    Among groups of the same size the one with the earliest vote wins. Further boxes are assumed to
    join one group and to leave the others unchanged.
    """
    if not groups:
        return left == 0
    leader, *others = groups
    rivals = [(len(group) + left, group[0]) for group in others]
    newcomer = (left, max(map(max, groups)) + 1)
    return all(
        len(leader) > size or (len(leader) == size and leader[0] < first)
        for size, first in [*rivals, newcomer]
    )


def short_text(answer: Answer) -> str:
    """Return a short text for an answer."""
    if answer.box is not None:
        where = f" in picture {answer.image_index}" if answer.image_index else ""
        return "[" + ", ".join(f"{side:g}" for side in answer.box) + "]" + where
    if answer.kind == "image":
        return "a picture"
    text = " ".join(str(answer.value).split())
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"


def _rank(group: Group) -> tuple[int, int]:
    return -len(group), group[0]


def agree(answer: Answer, other: Answer) -> bool:
    """Return whether two answers count as the same."""
    return len(groups_of([answer, other])) == 1


def answer_key(answer: Answer) -> Any:
    """Return a key that equal answers share."""
    if answer.choice_index is not None:
        return answer.choice_index
    if answer.kind in ("text", "number"):
        return normalise_answer(answer.value) or str(answer.value).strip()
    return json.dumps(answer.value, sort_keys=True)


def _overlap(first: Answer, second: Answer) -> float:
    """Return the IoU of two boxes; 0 in different pictures."""
    if first.box is None or second.box is None or first.image_index != second.image_index:
        return 0.0
    return box_iou(first.box, second.box)
