"""What must hold of learning, judged on the methods and on the tools alone.

Every claim is listed whatever was measured; one that was left out is neither true nor false, and
says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viper.evaluate.intervals import Estimate, mean, paired, proportion, share
from viper.tuning.soft_prompts.base import TOOLS
from viper_lab.papers.clova_tools import ToolOutcome, ToolResults
from viper_lab.papers.method_runner import Subject
from viper_lab.papers.result import Claim, in_percent
from viper_lab.papers.tables import LEFT_OUT

NEW, OLD = "new", "old"

# Accuracy of detector and matcher on reserved concepts.
BEFORE_AT_MOST, AFTER_AT_LEAST = 0.35, 0.80

END_TO_END = 0.25
# One point.
LOST = 0.01

# Shares of prompts of wrong pictures that are discarded, of right ones that are kept.
DISCARDED, KEPT = 0.9, 0.7

# To learn one concept, on two cores.
SECONDS: Mapping[str, float] = {"match": 60.0, "loc": 180.0}

# Claim to the benchmark that judges it.
_MEASURED_APART = {
    "blame on 300 injected faults: precision at least 85 % where it speaks": "benchmarks/blame.py",
    "kill -9 at 20 random moments: pools open, whole versions, learning resumes":
        "benchmarks/learn_kills.py",
}  # fmt: skip

_STRICT = ("loc", "match")
# Questions about pictures of new concepts that ask what the tools could do before.
_STAYS = ("seg absent", "seg outline", "beside")

_GAINS = "{}: a gain on reserved concepts whose interval excludes 0"
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
    gained = "answers, {}: at least +25 points over the baseline"
    olds = [Claim.of_gain(lost, step, -LOST) for subject, step in ended if not subject.stream_split]
    news = [
        Claim.of_gain(gained.format(subject.name), step, END_TO_END)
        for subject, step in ended
        if subject.stream_split
    ]
    return [
        *_tools(tools, why),
        *news,
        *(olds or [Claim(lost, None, _NOT_WORLD)]),
        _same_without(tools, why),
        *_noise(tools, why),
        *_seconds(tools, why),
        *(Claim(claim, None, f"measured apart: python {script}")
          for claim, script in _MEASURED_APART.items()),
    ]  # fmt: skip


def _tools(tools: ToolResults | None, why: str) -> list[Claim]:
    if tools is None:
        return [Claim("every tool learns reserved concepts from 7 positives", None, why)]
    # reversed: of equal names the first, which has no wrong pictures, stays
    steps = {(gain.name, gain.family): gain.difference for gain in reversed(tools.gains)}
    claims = []
    for tool, outcomes in tools.outcomes.items():
        for kind in dict.fromkeys(answer.kind for answer in outcomes[0].new[0]):
            before, after = (_share(outcomes, kind, place) for place in (0, 1))
            claim = _GAINS.format(kind)
            least, holds = 0.0, None
            if tool in _STRICT:
                claim = f"{kind}: from at most 35 % to at least 80 % on reserved concepts"
                holds = before.high < BEFORE_AT_MOST and after.low > AFTER_AT_LEAST
            elif kind in _STAYS:
                claim, least = f"{kind}: at most 1 point lost beside reserved concepts", -LOST
            prefix = f"{in_percent(before)} -> {in_percent(after)}: "
            claims.append(Claim.of_gain(claim, steps[kind, NEW], least, prefix=prefix, holds=holds))
            if (kind, OLD) in steps:
                claim = f"{kind}: at most 1 point lost on old concepts"
                claims.append(Claim.of_gain(claim, steps[kind, OLD], -LOST))
    left_out = [tool for tool in TOOLS if tool not in tools.outcomes]
    return [*claims, *(Claim(_GAINS.format(tool), None, why) for tool in left_out)]


def _share(outcomes: Sequence[ToolOutcome], kind: str, place: int) -> Estimate:
    """Return the score on new concepts, before (``place`` 0) or after, over all seeds."""
    answers = [
        (answer.right, f"{seed} {answer.sample}")
        for seed, outcome in enumerate(outcomes)
        for answer in outcome.new[place]
        if answer.kind == kind
    ]
    rights, clusters = [right for right, _ in answers], [scene for _, scene in answers]
    if set(rights) <= {0, 1}:
        return share([right == 1 for right in rights], clusters)
    return mean(rights, clusters=clusters)


def _same_without(tools: ToolResults | None, why: str) -> Claim:
    claim = "with the pools removed, every answer of every tool is what it was"
    if tools is None:
        return Claim(claim, None, why)
    outcomes = [outcome for by_seed in tools.outcomes.values() for outcome in by_seed]
    questions = sum(len(outcome.new[0]) + len(outcome.old[0]) for outcome in outcomes)
    same = all(outcome.same_without for outcome in outcomes)
    return Claim(claim, same, f"{questions:,} questions asked again")


def _noise(tools: ToolResults | None, why: str) -> list[Claim]:
    discards = "30 % wrong pictures: validation discards at least 90 % of their prompts"
    keeps = "30 % wrong pictures: validation keeps at least 70 % of the good prompts"
    matters = "30 % wrong pictures: without validation the score is worse"
    if tools is None or tools.noisy is None:
        return [Claim(claim, None, why) for claim in (discards, keeps, matters)]
    checked, unchecked = tools.noisy
    wrong, good = sum(o.wrong for o in checked), sum(o.good for o in checked)
    discarded = wrong - sum(o.kept_wrong for o in checked)
    kept_good = sum(o.kept_good for o in checked)
    before, after = (
        [answer.right for outcome in outcomes for answer in outcome.new[1]]
        for outcomes in (unchecked, checked)
    )
    clusters = [f"{i} {a.sample}" for i, outcome in enumerate(checked) for a in outcome.new[1]]
    return [
        Claim.of_share(discards, proportion(discarded, wrong), DISCARDED),
        Claim.of_share(keeps, proportion(kept_good, good), KEPT),
        Claim.of_gain(matters, paired(before, after, clusters).difference),
    ]


def _seconds(tools: ToolResults | None, why: str) -> list[Claim]:
    claims = []
    for tool, most in SECONDS.items():
        claim = f"{tool}: one concept learned within {most:g} s"
        if tools is None or tool not in tools.outcomes:
            claims.append(Claim(claim, None, why))
            continue
        seconds = [value for outcome in tools.outcomes[tool] for value in outcome.seconds]
        reason = f"the slowest of {len(seconds)} took {max(seconds):.1f} s on this machine"
        claims.append(Claim(claim, max(seconds) <= most, reason))
    return claims
