"""Confidence: the calibrated probability that an answer is right, and abstention below a risk.

A profile holds the calibration, which ``viper learn confidence`` fits on labelled samples: a
logistic regression on facts of the trace (:func:`features`). Plain runs, verified ones and those
with agreement checks have one each, and answers of a kind with enough labelled samples (numbers,
truth values, boxes) have their own within it: a detector that tells well whether there are cups may
count them badly. :func:`judged` adds the confidence to a finished trace, and withholds the answer
below the :meth:`Confidence.limit` of the risk.

Source: Platt 1999 for the scale; Angelopoulos et al. 2024, "Conformal Risk Control", for the limit
of abstention. Differs: the risk is that of the answers given, not of all queries, so the limit is
the lowest confidence down to which the bound holds throughout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viper.agreement import normalise_answer
from viper.errors import UsageError
from viper.schema import Answer, Failure, Trace, Trial

# The strategies that ``viper learn confidence`` runs and whose answers share calibrations; the
# features count their trials and votes. ``exec`` runs a program of the user.
STRATEGIES = PROGRAM, EXEC = "program", "exec"

# Names of the calibrations in a profile: of runs without and with verification, and of runs with
# agreement checks (setting ``checks``). Another strategy has one of its own name.
CALIBRATIONS = PLAIN, VERIFIED, CHECKED = "plain", "verified", "checked"

# Kind of the warning about a program that never looked: its answer may be right, but nothing in the
# picture speaks for it.
UNSUPPORTED = "unsupported"

# Answers with these features have no confidence: the calibration knows only the usual pictures and
# words, and programs that look. Whether an unknown word matters, labelled samples do not tell: in
# those of a grammar it is a slip of the pen, in a question about elephants it is the elephant.
UNCALIBRATED = frozenset(
    {"warning:unlike_training_pictures", "warning:unknown_words", f"warning:{UNSUPPORTED}"}
)

# Feature of an answer by a given program.
GIVEN = "given"

# Longer histories are too rare in labelled samples for a weight of their own.
_MOST_RERUNS = 3
# Most that doubtful candidates count, or an unlikely program: no fact may outweigh all others.
_ROOM = 4.0

# Greater numbers are no counts, and thousands of digits have no finite logarithm.
_MOST_COUNTED = 1e6

# Margin of a call without any candidate, in log-odds: backends return none of a score below .01,
# which is as far below a usual threshold.
_NOTHING = -4.0

# Scores of 0 and 1 have no finite log-odds; this near to them all count alike.
_EDGE = 1e-3


@dataclass(frozen=True)
class Confidence:
    """Calibration of the runs of a profile.

    Attributes:
        weights: log-odds of a right answer for each feature, and ``intercept``.
        steps: ``(confidence, answered, wrong)`` of labelled samples, confidence falling: how many
            answers had at least this confidence, and how many of them were wrong.
        unit: answers about one picture, on average, as far as the labelled samples have several.
        kinds: calibrations of answers of one kind (:func:`kind_of`) that replace this one.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    steps: tuple[tuple[float, int, int], ...] = ()
    unit: float = 1.0
    kinds: Mapping[str, Confidence] = field(default_factory=dict)

    def about(self, answer: Answer) -> Confidence:
        """Return the calibration of answers of the same kind."""
        return self.kinds.get(kind_of(answer), self)

    def of(self, trace: Trace) -> float | None:
        """Return the probability that the answer of a trace is right.

        Return None for a task that the labelled samples did not have, for a given program or a
        query with unknown words if they had none, for media unlike those that the models know, and
        for a program that looked at nothing: nothing is known about such answers.
        """
        values = features(trace)
        # A calibration without a weight for these knows nothing about the answer.
        needed = values.keys() & {GIVEN, f"task:{_task_of(trace)}"}
        if UNCALIBRATED & values.keys() or needed - self.weights.keys():
            return None
        return probability(self.weights, values)

    def limit(self, risk: float) -> float | None:
        """Return the least confidence at which the expected error of answers is at most a risk.

        The bound counts one picture more than the labelled samples, with wrong answers only.

        Return None if the labelled samples promise it for no confidence.
        """
        limit = None
        for confidence, answered, wrong in self.steps:
            if (wrong + self.unit) / (answered + self.unit) <= risk:
                limit = confidence
            elif limit is not None:
                break
        return limit


def mode_of(strategy: str, *, verify: bool, checks: bool) -> str:
    """Return the name of the calibration of runs of a strategy with these settings."""
    if strategy not in STRATEGIES:
        return strategy
    return VERIFIED if verify else CHECKED if checks else PLAIN


def check_risk(
    calibrations: Mapping[str, Confidence], strategy: str, mode: str, risk: float
) -> None:
    """Check that a profile promises a risk for answers of some kind.

    Raises:
        UsageError: it does not.
    """
    if strategy not in {*STRATEGIES, *calibrations}:
        raise UsageError(f"abstain needs strategy {PROGRAM}, whose answers have a confidence")
    own = calibrations.get(mode, Confidence())
    if all(each.limit(risk) is None for each in (own, *own.kinds.values())):
        runs = {VERIFIED: "runs with verify", CHECKED: "runs with checks"}
        raise UsageError(
            f"abstain is {risk:g}, which the profile promises for no confidence of "
            f"{runs.get(mode, 'runs without verify')}; "
            "viper learn confidence SET calibrates it, or take a larger risk"
        )


def judged(
    trace: Trace, calibrations: Mapping[str, Confidence], *, mode: str, risk: float
) -> Trace:
    """Return the trace with the confidence of its answer, withheld if the risk forbids it.

    Args:
        mode: which calibration counts.
        risk: largest expected error of the answers given; 0 gives all.
    """
    calibration = calibrations.get(mode)
    if trace.answer is None or calibration is None:
        return trace
    calibration = calibration.about(trace.answer)
    confidence = calibration.of(trace)
    trace = replace(trace, answer=replace(trace.answer, confidence=confidence))
    if not risk:
        return trace
    limit = calibration.limit(risk)
    if confidence is not None and limit is not None and confidence >= limit:
        return trace
    known = "is not known" if confidence is None else f"is {confidence:.2f}"
    asks = "more than was ever measured" if limit is None else f"{limit:.2f}"
    message = f"The confidence of the answer {known}; a risk of {risk:g} asks for {asks}."
    return trace.without_answer(Failure("abstained", message))


def kind_of(answer: Answer) -> str:
    """Return ``truth`` for yes and no, ``number`` for a number, else the answer's own kind."""
    words = normalise_answer(answer.value) if answer.box is None else ""
    return "truth" if words in ("yes", "no") else "number" if words.isdecimal() else answer.kind


def _task_of(trace: Trace) -> str:
    """Return the task; that of a given program without one is the one its answer fits."""
    if trace.task != "auto" or trace.answer is None:
        return trace.task
    return {"box": "ground", "tags": "tag"}.get(trace.answer.kind, "question")


def probability(weights: Mapping[str, float], values: Mapping[str, float]) -> float:
    """Return the probability by a logistic regression; features without a weight do not count."""
    odds = weights.get("intercept", 0.0)
    odds += sum(weights.get(name, 0.0) * value for name, value in values.items())
    return round(1 / (1 + math.exp(-max(-30.0, min(30.0, odds)))), 4)


def features(trace: Trace) -> dict[str, float]:
    """Return the facts of a trace that tell right from wrong answers, by name; absent ones are 0.

    ``task:…``, ``warning:…``, ``failed:…`` (a check by its name) and ``given`` (a program of the
    user) are 1. ``reruns`` counts trials before the answer. ``dissent`` is the share of votes for
    other answers, and ``differs`` that of exact inputs on which the program differs from most
    candidates. ``count`` is the logarithm of an answer that is a number, and ``unsure`` minus that
    of the program's probability under its writer.

    Of the candidates that a threshold judged, in log-odds: ``doubtful`` measures those near it,
    each by at most 1. Where one was accepted, ``weakest`` is by how much the last one passed, and
    ``passed`` by how much the best one did, on the mean of the run and its checks; where none was,
    ``none`` is 1, and ``missed`` is by how much the best one failed.
    """
    values = {f"task:{_task_of(trace)}": 1.0}
    values |= {GIVEN: 1.0} if trace.strategy == EXEC else {}
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
    if trace.answer is not None and kind_of(trace.answer) == "number":
        number = float(normalise_answer(trace.answer.value))
        values["count"] = math.log(min(_MOST_COUNTED, max(1.0, number)))
    if trace.answering is None:
        return values
    if (logprob := trace.answering.logprob) is not None:
        values["unsure"] = min(_ROOM, -logprob)
    calls = _gaps(trace.answering)
    gaps = [gap for call in calls for gap in call]
    values["doubtful"] = min(_ROOM, sum(math.exp(-abs(gap)) for gap in gaps))
    own = margin_of(trace.answering)
    if own is not None:
        margins = [own, *(check.margin for check in trace.checks if check.margin is not None)]
        sure = math.copysign(1, own) * sum(margins) / len(margins)
        accepted = [gap for gap in gaps if gap >= 0]
        seen = {"passed": sure, "weakest": min(accepted)} if accepted else {}
        values |= seen or {"missed": sure, "none": 1.0}
    return values


def margin_of(trial: Trial) -> float | None:
    """Return how clearly thresholds decided, in log-odds: the least clear call's best candidate.

    Negative if it was rejected; None if no threshold decided.
    """
    return min((max(call, default=_NOTHING) for call in _gaps(trial)), key=abs, default=None)


def _gaps(trial: Trial) -> list[list[float]]:
    """Return for each judged call by how much its candidates passed, in log-odds."""
    return [
        [_odds(score) - _odds(trial.thresholds[call.judged_by]) for score in call.scores]
        for call in trial.tool_calls
        if call.judged_by and call.judged_by in trial.thresholds
    ]


def _odds(share: float) -> float:
    share = min(1 - _EDGE, max(_EDGE, share))
    return math.log(share / (1 - share))
