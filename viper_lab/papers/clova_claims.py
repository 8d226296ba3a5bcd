"""What must hold of learning, judged on the courses and on the tools alone.

Every claim is listed whatever was measured; one that was left out is neither true nor false, and
says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viper.evaluate.intervals import Estimate, mean
from viper_lab.papers.clova_tools import ToolResults
from viper_lab.papers.result import Claim
from viper_lab.papers.school import Subject
from viper_lab.papers.tables import LEFT_OUT

NEW, OLD = "new", "old"

BEFORE_AT_MOST, AFTER_AT_LEAST = 0.35, 0.80
"""Accuracy of detector and matcher on reserved concepts."""

END_TO_END = 0.25
LOST = 0.01
"""One point."""

DISCARDED, KEPT = 0.9, 0.7
"""Shares of prompts of wrong pictures that are discarded, of right ones that are kept."""

SECONDS: Mapping[str, float] = {"match": 60.0, "loc": 180.0}
"""To learn one concept, on two cores."""

_STRICT = ("loc", "match")
_NOT_WORLD = "measured on the embedded world only"


def judged(
    ended: Sequence[tuple[Subject, Estimate]], tools: ToolResults | None, *, quick: bool
) -> list[Claim]:
    """Return all claims, in an order that stays.

    Args:
        ended: of each subject the gain of everything over the baseline.
    """
    why = LEFT_OUT if quick else _NOT_WORLD
    lost = "answers about old concepts after all updates: at most 1 point lost"
    olds = [Claim.of_gain(lost, step, -LOST) for subject, step in ended if not subject.taught]
    return [
        *_tools(tools, why),
        *(
            Claim.of_gain(
                f"answers, {subject.name}: at least +25 points over the baseline", step, END_TO_END
            )
            for subject, step in ended
            if subject.taught
        ),
        *(olds or [Claim(lost, None, _NOT_WORLD)]),
        _same_without(tools, why),
        *_noise(tools, why),
        *_seconds(tools, why),
        Claim(
            "blame on 300 injected faults: precision at least 85 % where it speaks",
            None,
            "measured apart: python benchmarks/blame.py",
        ),
        Claim(
            "kill -9 at 20 random moments: pools open, whole versions, learning resumes",
            None,
            "measured apart: python benchmarks/learn_kills.py",
        ),
    ]


def _tools(tools: ToolResults | None, why: str) -> list[Claim]:
    if tools is None:
        return [Claim("every tool learns reserved concepts from 7 positives", None, why)]
    # reversed: of equal names the first, which has no wrong pictures, stays
    means = {(row.name, row.family): row.figure.mean for row in reversed(tools.entries)}
    steps = {(one.name, one.family): one.difference for one in reversed(tools.gains)}
    claims = []
    for tool, outcomes in tools.outcomes.items():
        for kind in dict.fromkeys(one.kind for one in outcomes[0].new[0]):
            before, after = (means[f"{kind}, {when}", NEW] for when in ("before", "after"))
            claim = f"{kind}: a gain on reserved concepts whose interval excludes 0"
            holds = None
            if tool in _STRICT:
                claim = f"{kind}: from at most 35 % to at least 80 % on reserved concepts"
                holds = before <= BEFORE_AT_MOST and after >= AFTER_AT_LEAST
            prefix = f"{100 * before:.1f} -> {100 * after:.1f}: "
            claims.append(Claim.of_gain(claim, steps[kind, NEW], prefix=prefix, holds=holds))
            if (kind, OLD) in steps:
                claim = f"{kind}: at most 1 point lost on old concepts"
                claims.append(Claim.of_gain(claim, steps[kind, OLD], -LOST))
    return claims


def _same_without(tools: ToolResults | None, why: str) -> Claim:
    claim = "with the pools removed, every answer of every tool is what it was"
    if tools is None:
        return Claim(claim, None, why)
    questions = sum(
        len(one.new[0]) + len(one.old[0]) for by_seed in tools.outcomes.values() for one in by_seed
    )
    same = all(one.same_without for by_seed in tools.outcomes.values() for one in by_seed)
    return Claim(claim, same, f"{questions:,} questions asked again")


def _noise(tools: ToolResults | None, why: str) -> list[Claim]:
    discards = "30 % wrong pictures: validation discards at least 90 % of their prompts"
    keeps = "30 % wrong pictures: validation keeps at least 70 % of the good prompts"
    matters = "30 % wrong pictures: without validation the score is worse"
    if tools is None or tools.noisy is None:
        return [Claim(claim, None, why) for claim in (discards, keeps, matters)]
    checked, unchecked = tools.noisy
    wrong, kept_wrong = sum(one.wrong for one in checked), sum(one.kept_wrong for one in checked)
    good, kept_good = sum(one.good for one in checked), sum(one.kept_good for one in checked)
    scores = [
        [answer.right for one in outcomes for answer in one.new[1]]
        for outcomes in (unchecked, checked)
    ]
    pairs = [after - before for before, after in zip(*scores, strict=True)]
    clusters = [f"{i} {answer.sample}" for i, one in enumerate(checked) for answer in one.new[1]]
    gained = mean(pairs, clusters=clusters)
    return [
        Claim(
            discards,
            wrong > 0 and (wrong - kept_wrong) / wrong >= DISCARDED,
            f"{wrong - kept_wrong} of {wrong} discarded",
        ),
        Claim(keeps, good > 0 and kept_good / good >= KEPT, f"{kept_good} of {good} kept"),
        Claim.of_gain(matters, gained),
    ]


def _seconds(tools: ToolResults | None, why: str) -> list[Claim]:
    claims = []
    for tool, most in SECONDS.items():
        claim = f"{tool}: one concept learned within {most:g} s"
        if tools is None or tool not in tools.outcomes:
            claims.append(Claim(claim, None, why))
            continue
        seconds = [value for one in tools.outcomes[tool] for value in one.seconds]
        reason = f"the slowest of {len(seconds)} took {max(seconds):.1f} s on this machine"
        claims.append(Claim(claim, max(seconds) <= most, reason))
    return claims
