"""Confidence: the calibrated probability that an answer is right, and abstention below a risk.

A profile holds the calibration, which ``viper learn confidence`` fits on labelled samples: a
logistic regression on facts of the trace (:func:`features`). Runs with and without verification
have one each. :func:`judged` adds the confidence to a finished trace, and withholds the answer
below the :meth:`Confidence.limit` of the risk.

Source: Platt 1999 for the scale; Angelopoulos et al. 2024, "Conformal Risk Control", for the limit
of abstention. Differs: the risk is that of the answers given, not of all queries, so the limit is
the lowest confidence down to which the bound holds throughout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viper.errors import UsageError
from viper.schema import Failure, Trace

# The strategy whose answers are calibrated: ``viper learn confidence`` runs it, and the features
# count its trials and votes.
STRATEGY = "program"

# Names of the calibrations in a profile: of runs without and with verification.
CALIBRATIONS = PLAIN, VERIFIED = "plain", "verified"

# Answers about other pictures have no confidence: the calibration knows only the usual ones.
UNCALIBRATED = "warning:unlike_training_pictures"

# Kind of the warning about a program that never looked, and the most that its answer can have: it
# may be right, but nothing in the picture speaks for it, and the labelled samples have none such.
UNSUPPORTED, MOST_UNSUPPORTED = "unsupported", 0.5

# Longer histories are too rare in labelled samples for a weight of their own.
_MOST_RERUNS = 3
# Most doubtful candidates that count, so that a crowded picture cannot outweigh all other facts.
_ROOM = 4.0

# Scores of 0 and 1 have no finite log-odds; this near to them all count alike.
_EDGE = 1e-3


@dataclass(frozen=True)
class Confidence:
    """Calibration of the runs of a profile.

    Attributes:
        weights: log-odds of a right answer for each feature, and ``intercept``.
        steps: ``(confidence, answered, wrong)`` of labelled samples, confidence falling: how many
            answers had at least this confidence, and how many of them were wrong.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    steps: tuple[tuple[float, int, int], ...] = ()

    def of(self, trace: Trace) -> float | None:
        """Return the probability that the answer of a trace is right.

        Return None for a task that the labelled samples did not have, and for media unlike those
        that the models know: nothing is known about such answers.
        """
        values = features(trace)
        if UNCALIBRATED in values or f"task:{trace.task}" not in self.weights:
            return None
        return probability(self.weights, values)

    def limit(self, risk: float) -> float | None:
        """Return the least confidence at which the expected error of answers is at most a risk.

        Return None if the labelled samples promise it for no confidence.
        """
        limit = None
        for confidence, answered, wrong in self.steps:
            if (wrong + 1) / (answered + 1) <= risk:
                limit = confidence
            elif limit is not None:
                break
        return limit


def limit_of(
    calibrations: Mapping[str, Confidence], strategy: str, verified: bool, risk: float
) -> float:
    """Return the least confidence of an answer at a risk.

    Raises:
        UsageError: the profile has no calibration that promises the risk.
    """
    if strategy != STRATEGY:
        raise UsageError(f"abstain needs strategy {STRATEGY}, whose answers have a confidence")
    calibration = calibrations.get(VERIFIED if verified else PLAIN)
    limit = None if calibration is None else calibration.limit(risk)
    if limit is None:
        runs = "runs with verify" if verified else "runs without verify"
        raise UsageError(
            f"abstain is {risk:g}, which the profile promises for no confidence of {runs}; "
            "viper learn confidence SET calibrates it, or take a larger risk"
        )
    return limit


def judged(
    trace: Trace, calibrations: Mapping[str, Confidence], *, verified: bool, risk: float
) -> Trace:
    """Return the trace with the confidence of its answer, withheld if the risk forbids it.

    Args:
        verified: which calibration counts.
        risk: largest expected error of the answers given; 0 gives all.
    """
    calibration = calibrations.get(VERIFIED if verified else PLAIN)
    if trace.answer is None or trace.strategy != STRATEGY or calibration is None:
        return trace
    confidence = calibration.of(trace)
    if confidence is not None and any(w.kind == UNSUPPORTED for w in trace.warnings):
        confidence = min(confidence, MOST_UNSUPPORTED)
    trace = replace(trace, answer=replace(trace.answer, confidence=confidence))
    if not risk:
        return trace
    limit = limit_of(calibrations, trace.strategy, verified, risk)
    if confidence is not None and confidence >= limit:
        return trace
    known = "is not known" if confidence is None else f"is {confidence:.2f}"
    message = f"The confidence of the answer {known}; a risk of {risk:g} asks for {limit:.2f}."
    return trace.without_answer(Failure("abstained", message))


def probability(weights: Mapping[str, float], values: Mapping[str, float]) -> float:
    """Return the probability by a logistic regression; features without a weight do not count."""
    odds = weights.get("intercept", 0.0)
    odds += sum(weights.get(name, 0.0) * value for name, value in values.items())
    return round(1 / (1 + math.exp(-max(-30.0, min(30.0, odds)))), 4)


def features(trace: Trace) -> dict[str, float]:
    """Return the facts of a trace that tell right from wrong answers, by name; absent ones are 0.

    ``task:…``, ``warning:…`` and ``failed:…`` (a check by its name) are 1. ``reruns`` counts trials
    before the answer. ``doubtful`` measures candidates near the threshold that judged them, each by
    at most 1, ``dissent`` the share of votes for other answers, and ``differs`` the share of exact
    inputs on which the program differs from most candidates.
    """
    values = {f"task:{trace.task}": 1.0}
    values |= {f"warning:{warning.kind}": 1.0 for warning in trace.warnings}
    values |= {
        f"failed:{check.name}": 1.0
        for check in trace.checks
        if check.kind == "relation" and not check.passed
    }
    exact = [check.passed for check in trace.checks if check.kind == "exact"]
    values["differs"] = exact.count(False) / len(exact) if exact else 0.0
    votes = [count for _, count in trace.votes]
    values["dissent"] = 1 - votes[0] / sum(votes) if votes else 0.0
    values["reruns"] = float(min(_MOST_RERUNS, len(trace.trials) - max(1, len(votes))))
    if trace.answering is not None:
        total = 0.0
        for call in trace.answering.tool_calls:
            threshold = trace.answering.thresholds.get(call.judged_by or "")
            if threshold is not None:
                gaps = (abs(_odds(score) - _odds(threshold)) for score in call.scores)
                total += sum(math.exp(-gap) for gap in gaps)
        values["doubtful"] = min(_ROOM, total)
    return values


def _odds(share: float) -> float:
    share = min(1 - _EDGE, max(_EDGE, share))
    return math.log(share / (1 - share))
