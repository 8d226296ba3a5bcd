"""Answers one query several times; the most frequent answer wins.

Source: self-consistency (Wang et al. 2023, "Self-Consistency Improves Chain of Thought Reasoning in
Language Models"), which takes the commonest of several sampled answers. Differs: programs are
sampled, not reasons; boxes agree by overlap; a round that cannot change the winner is not run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

from viper.agreement import SAME_BOX, box_iou, normalise_answer
from viper.schema import Answer, Trial
from viper.strategies.base import RunContext

# Least number of programs that are written for verification.
LEAST_CANDIDATES = 3

_LONGEST_TEXT = 80

# Answers the query once more; the argument is the number of earlier rounds.
#
# It returns the index of the trial that answered, possibly of an earlier round, or None.
Round = Callable[[int], Generator[Trial, None, int | None]]

# Indices of votes that agree, the earliest first.
Group = tuple[int, ...]


class Vote(NamedTuple):
    """One answer: the trial that gave it, and the return value of its program."""

    trial: int
    answer: Answer
    value: Any = None


def answer_by_vote(context: RunContext, answer_once: Round) -> Iterator[Trial]:
    """Yield the trials of as many rounds as needed and store the result in the context.

    A round without an answer casts no vote. The rounds end if a further one cannot change the
    winner, or if the budget is used up. For verification, all rounds are held.
    """
    verifies = context.settings.verify
    rounds = max(context.settings.votes, LEAST_CANDIDATES if verifies else 1)
    votes: list[Vote] = []
    vote_by_trial: dict[int, Vote] = {}
    for number in range(rounds):
        index = yield from answer_once(number)
        if index is not None:
            if index not in vote_by_trial:
                vote_by_trial[index] = Vote(index, *context.final_value)
            votes.append(vote_by_trial[index])
        decided = not verifies and is_decided(groups_of(votes), rounds - number - 1)
        if context.stopped is not None or decided:
            break
    context.ballots = tuple(votes)
    if votes:
        set_winner(context, votes, groups_of(votes))


def set_winner(context: RunContext, votes: Sequence[Vote], groups: Sequence[Group]) -> None:
    """Let the first group's vote be the answer of the run."""
    best = [votes[central(votes, group)] for group in groups]
    context.chosen = best[0].trial
    context.final_value = (best[0].answer, best[0].value)
    context.votes = tuple(
        (short_text(vote.answer), len(group)) for vote, group in zip(best, groups, strict=True)
    )


def groups_of(votes: Sequence[Vote]) -> list[Group]:
    """Group the votes that agree: the largest group first; of equal sizes, that with the earliest
    vote.
    """
    boxes = all(vote.answer.box is not None for vote in votes)
    groups = _group_by_overlap(votes) if boxes else _group_equal(votes)
    return sorted(groups, key=_rank)


def central(votes: Sequence[Vote], group: Group) -> int:
    """Return the index that represents a group: the earliest vote, or the box with most overlap."""
    if votes[group[0]].answer.box is None:
        return group[0]
    return max(group, key=lambda i: sum(_overlap(votes[i], votes[other]) for other in group))


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


def _group_equal(votes: Sequence[Vote]) -> list[Group]:
    by_key: dict[Any, list[int]] = {}
    for index, vote in enumerate(votes):
        by_key.setdefault(answer_key(vote.answer), []).append(index)
    return [tuple(indices) for indices in by_key.values()]


def agree(answer: Answer, other: Answer) -> bool:
    """Return whether two answers count as the same."""
    return len(groups_of([Vote(0, answer), Vote(1, other)])) == 1


def answer_key(answer: Answer) -> Any:
    """Return a key that equal answers share."""
    if answer.choice_index is not None:
        return answer.choice_index
    if answer.kind in ("text", "number"):
        return normalise_answer(answer.value) or str(answer.value).strip()
    return json.dumps(answer.value, sort_keys=True)


def _group_by_overlap(votes: Sequence[Vote]) -> list[Group]:
    """Group the box that most others agree with, together with these; repeat for the rest."""
    remaining, groups = list(range(len(votes))), []
    while remaining:
        neighbours = [
            tuple(
                other
                for other in remaining
                if other == index or _overlap(votes[index], votes[other]) >= SAME_BOX
            )
            for index in remaining
        ]
        group = min(neighbours, key=_rank)
        groups.append(group)
        remaining = [index for index in remaining if index not in group]
    return groups


def _overlap(vote: Vote, other: Vote) -> float:
    """Return the IoU of two boxes; 0 in different pictures."""
    first, second = vote.answer, other.answer
    if first.box is None or second.box is None or first.image_index != second.image_index:
        return 0.0
    return box_iou(first.box, second.box)
