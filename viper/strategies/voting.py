"""Several answers to one query, of which the most frequent counts.

Source: self-consistency (Wang et al. 2023, "Self-Consistency Improves Chain of Thought
Reasoning in Language Models"), which takes the commonest of several sampled answers. Differs:
programs are sampled, not reasons; boxes agree by overlap; what cannot win any more is not asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

from viper.agreement import box_iou, normalised
from viper.schema import Answer, Trial
from viper.strategies.base import RunContext

SAME_BOX = 0.5
"""Boxes that overlap by at least this IoU are the same answer."""

_LONGEST_TEXT = 80

Round = Callable[[int], Generator[Trial, None, int | None]]
"""Answers the query once more, given how often it was answered before.

Gives the index of the trial that answered, be it one of an earlier round; None where none did.
"""

Group = tuple[int, ...]
"""Places of votes that agree, the earliest first."""


class Vote(NamedTuple):
    """One answer: the trial that gave it, and what its program returned."""

    trial: int
    answer: Answer
    value: Any = None


def voted(context: RunContext, answer_once: Round) -> Iterator[Trial]:
    """The trials of as many rounds as it takes; what they come to is in the context afterwards.

    A round without an answer casts no vote. No further round begins where it could not change
    which answer wins, or where the budget is used up.
    """
    wanted = context.settings.votes
    votes: list[Vote] = []
    answered: dict[int, Vote] = {}
    for place in range(wanted):
        index = yield from answer_once(place)
        if index is not None:
            if index not in answered:
                answered[index] = Vote(index, *context.final_value)
            votes.append(answered[index])
        if context.stopped is not None or is_decided(groups_of(votes), wanted - place - 1):
            break
    if not votes:
        return
    found = groups_of(votes)
    best = [votes[central(votes, group)] for group in found]
    context.chosen = best[0].trial
    context.final_value = (best[0].answer, best[0].value)
    context.votes = tuple(
        (short_text(vote.answer), len(group)) for vote, group in zip(best, found, strict=True)
    )


def groups_of(votes: Sequence[Vote]) -> list[Group]:
    """The votes that agree: the largest group first, of equal ones that with the earliest vote."""
    boxes = all(vote.answer.box is not None for vote in votes)
    found = _overlapping(votes) if boxes else _equal(votes)
    return sorted(found, key=_rank)


def central(votes: Sequence[Vote], group: Group) -> int:
    """The place that speaks for a group: its earliest, or the box that overlaps the others most."""
    if votes[group[0]].answer.box is None:
        return group[0]
    return max(group, key=lambda one: sum(_overlap(votes[one], votes[other]) for other in group))


def is_decided(groups: Sequence[Group], left: int) -> bool:
    """Whether the first group wins even if all ``left`` votes go to any other one.

    Of groups of the same size the one with the earliest vote wins. Boxes still to come are
    taken to join one group and to leave the others as they are.
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
    """An answer in a few words."""
    if answer.box is not None:
        where = f" in picture {answer.image_index}" if answer.image_index else ""
        return "[" + ", ".join(f"{side:g}" for side in answer.box) + "]" + where
    if answer.kind == "image":
        return "a picture"
    text = " ".join(str(answer.value).split())
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"


def _rank(group: Group) -> tuple[int, int]:
    return -len(group), group[0]


def _equal(votes: Sequence[Vote]) -> list[Group]:
    found: dict[Any, list[int]] = {}
    for place, vote in enumerate(votes):
        found.setdefault(_key(vote), []).append(place)
    return [tuple(places) for places in found.values()]


def _key(vote: Vote) -> Any:
    """What is equal of equal answers."""
    answer = vote.answer
    if answer.choice_index is not None:
        return answer.choice_index
    if answer.kind in ("text", "number"):
        return normalised(answer.value) or str(answer.value).strip()
    return json.dumps(answer.value, sort_keys=True)


def _overlapping(votes: Sequence[Vote]) -> list[Group]:
    """Takes the box that most others agree with, with these; then the same of those left."""
    left, found = list(range(len(votes))), []
    while left:
        around = [
            tuple(
                other
                for other in left
                if other == one or _overlap(votes[one], votes[other]) >= SAME_BOX
            )
            for one in left
        ]
        taken = min(around, key=_rank)
        found.append(taken)
        left = [place for place in left if place not in taken]
    return found


def _overlap(one: Vote, other: Vote) -> float:
    """IoU of two boxes; 0 in different pictures."""
    first, second = one.answer, other.answer
    if first.box is None or second.box is None or first.image_index != second.image_index:
        return 0.0
    return box_iou(first.box, second.box)
