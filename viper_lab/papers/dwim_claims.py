"""What must hold of agents that are tuned on their own workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viper.evaluate.intervals import Estimate, paired
from viper.learning.awareness import Awareness
from viper_lab.papers.dwim import answer_gain, utilisation_gain
from viper_lab.papers.dwim_study import MASKED, UNTUNED, DwimStudy
from viper_lab.papers.result import Claim, in_points

UNTUNED_LEAST, TUNED_GAIN, FEWER_WRONG_TOOLS = 0.40, 0.10, 1 / 3
WRONG_TOOL = "wrong tool"


def judged(study: DwimStudy, aware: Mapping[str, Sequence[Awareness]]) -> list[Claim]:
    """All claims, in an order that stays.

    Args:
        aware: of each agent what :func:`viper_lab.papers.dwim.aware` gives.
    """
    untuned, tuned = aware[UNTUNED.name][0], aware[MASKED.name][0]
    used = utilisation_gain(study)
    gained = answer_gain(study, UNTUNED, MASKED)
    return [
        Claim.of_gain(
            "data utilisation: discrepancy-aware above standard (interval excludes 0)",
            used.difference,
            used.difference.low > 0,
        ),
        Claim(
            "not tuned: at least 40 % right",
            untuned.right.value >= UNTUNED_LEAST,
            f"{_percent(untuned.right)}, n = {untuned.right.n:,}",
        ),
        Claim.of_gain(
            "instruct-masking: at least 10 points above not tuned",
            gained.difference,
            gained.difference.value >= TUNED_GAIN,
        ),
        _calls_fall(untuned, tuned),
        _wrong_tools_fall(untuned, tuned),
        _of_wrong_falls(untuned, tuned),
    ]


def _calls_fall(untuned: Awareness, tuned: Awareness) -> Claim:
    calls = paired(
        [float(one.calls) for one in untuned.each],
        [float(one.calls) for one in tuned.each],
        [one.unit for one in untuned.each],
    ).difference
    return Claim(
        "a question takes fewer calls of tools (interval excludes 0)",
        calls.high < 0,
        f"{untuned.calls.value:.2f} -> {tuned.calls.value:.2f}, "
        f"{calls.value:+.2f} [{calls.low:+.2f}, {calls.high:+.2f}], n = {calls.n:,}",
    )


def _wrong_tools_fall(untuned: Awareness, tuned: Awareness) -> Claim:
    before, after = untuned.share_of(WRONG_TOOL), tuned.share_of(WRONG_TOOL)
    fall = paired(
        [float(one.cause == WRONG_TOOL) for one in untuned.each],
        [float(one.cause == WRONG_TOOL) for one in tuned.each],
        [one.unit for one in untuned.each],
    ).difference
    return Claim(
        "of all answers, those that are wrong for a wrong tool fall by a third",
        _has_fallen(before, after),
        f"{_percent(before)} -> {_percent(after)}, {in_points(fall)}, n = {fall.n:,}",
    )


def _of_wrong_falls(untuned: Awareness, tuned: Awareness) -> Claim:
    before, after = untuned.share_of_wrong(WRONG_TOOL), tuned.share_of_wrong(WRONG_TOOL)
    return Claim(
        "of the wrong answers, those for a wrong tool fall by a third",
        _has_fallen(before, after),
        f"{_percent(before)} of {before.n:,} -> {_percent(after)} of {after.n:,}",
    )


def _has_fallen(before: Estimate, after: Estimate) -> bool | None:
    """Whether a share is a third smaller; None where there was nothing to fall."""
    if not before.value:
        return None
    return 1 - after.value / before.value >= FEWER_WRONG_TOOLS


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"
