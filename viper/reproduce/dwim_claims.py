"""What must hold of agents that are tuned on their own workflows."""

from __future__ import annotations

from collections.abc import Mapping

from viper.evaluate.awareness import Awareness
from viper.reproduce.dwim import MASKED, UNTUNED, Academy, answer_gain, utilisation_gain
from viper.reproduce.result import Claim

UNTUNED_LEAST, TUNED_GAIN, FEWER_WRONG_TOOLS = 0.40, 0.10, 1 / 3


def judged(academy: Academy, aware: Mapping[str, Awareness]) -> list[Claim]:
    """All claims, in an order that stays."""
    untuned, tuned = aware[UNTUNED.name], aware[MASKED.name]
    used = utilisation_gain(academy)
    gained = answer_gain(academy, UNTUNED, MASKED)
    right = untuned.right
    fewer = untuned.calls.value - tuned.calls.value
    before, after = untuned.share_of("wrong tool"), tuned.share_of("wrong tool")
    fallen = 1 - after / before if before else 0.0
    return [
        Claim.of_gain(
            "data utilisation: discrepancy-aware above standard (interval excludes 0)",
            used.difference,
            used.difference.low > 0,
        ),
        Claim(
            "not tuned: at least 40 % right",
            right.value >= UNTUNED_LEAST,
            f"{100 * right.value:.1f} % [{100 * right.low:.1f}, {100 * right.high:.1f}], "
            f"n = {right.n:,}",
        ),
        Claim.of_gain(
            "instruct-masking: at least 10 points above not tuned",
            gained.difference,
            gained.difference.value >= TUNED_GAIN,
        ),
        Claim(
            "calls of tools fall",
            fewer > 0,
            f"{untuned.calls.value:.2f} -> {tuned.calls.value:.2f} a question",
        ),
        Claim(
            "answers that are wrong for a wrong tool fall by a third",
            fallen >= FEWER_WRONG_TOOLS if before else None,
            f"{100 * before:.1f} % -> {100 * after:.1f} % of all answers",
        ),
    ]
