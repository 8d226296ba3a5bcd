"""Which program of a query becomes an example where no label says what is right.

Source: Stanić et al. 2024, sec. 5, leave it open how examples could do without labelled samples.
Here several programs are drawn for each query and medium, and agreement takes the label's place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from viper.ace.select import Answered, Candidate, same_answer, shape
from viper.agreement import normalised
from viper.schema import Example

SHEET = "sheet"
"""The kind of examples that were kept by agreement."""


@dataclass(frozen=True)
class Verdict:
    """What became of a query: its example, or why it has none.

    Attributes:
        why: ``agreed``; ``unanswered``: no program answered on any medium; ``disagreed``: too few
            gave the same answer; ``unasked``: no program was drawn.
    """

    example: Example | None
    why: Literal["agreed", "unanswered", "disagreed", "unasked"]


def agreed(media: Sequence[Sequence[Candidate]], at_least: int) -> Verdict:
    """The program that speaks for a query.

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
        return Verdict(None, "disagreed" if answered else "unanswered" if drawn else "unasked")
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
    return Verdict(replace(best.example, score=round(fmean(shares), 4)), "agreed")


def _commonest(programs: Sequence[Candidate]) -> list[Candidate]:
    """The programs that agree with one of them, of all such groups the largest, then earliest."""
    answering = [one for one in programs if _says_something(one.answer)]
    groups = ([o for o in answering if same_answer(one.answer, o.answer)] for one in answering)
    return max(groups, key=len, default=[])


def _says_something(answer: Answered | None) -> bool:
    return answer is not None and (not isinstance(answer, str) or bool(normalised(answer)))
