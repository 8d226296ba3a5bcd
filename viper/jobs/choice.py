"""Estimates how good a choice is on unseen cases, and promises a risk.

`out_of_fold` repeats the choice (:meth:`viper.jobs.evidence.Evidence.hypotheses`) without each fold
and lets it answer the fold, so the estimate judges the whole procedure, rules included. Confidence
comes from how far the hypotheses that are kept agree; `certify` bounds the risk of answers.

Source: exact risk bound (Clopper and Pearson 1934) with a fixed sequence of tests (Wiens 2003), as
Angelopoulos et al. 2021 bound risks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viper.evaluate.calibration import weights_of
from viper.jobs.evidence import Evidence, Hypothesis
from viper.jobs.rules import Floats, Ints
from viper.strategies.confidence import probability

# Folds of the estimate. More would leave more labels to choose on, but one of 20 that is left out
# alone makes its class rarer in the rest: where nothing explains the labels, the choice then
# answers the other class, and an estimate of .50 becomes .05.
FOLDS = 10

# Hypotheses whose answers are compared for the confidence: more cost time on every picture.
KEPT = 6

# Each bit between two hypotheses counts this much in their votes. At 1, the full posterior, one
# more error among sixty would silence a program.
_TEMPER = 0.25

# A smaller vote changes no confidence, and would cost a run for each picture.
_LEAST_VOTE = 1e-3

# Confidence with which risks are bounded.
SURE = 0.90

# Share of a promise's error rate for giving every answer; the rest is for limits of confidence.
_OF_ALL = 0.6

# Limit that withholds every answer: no confidence is above 1.
_NO_LIMIT = 2.0

# Neighbours that the baseline may use; the labels choose.
_NEIGHBOURS = (1, 3, 5)


def kept_of(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return the best hypothesis, and others whose answers are compared with its own.

    Those that are its own rule or program under other thresholds come first: they tell how
    clearly the models saw. Others tell how sure the meaning is.
    """
    best, *others = hypotheses
    same = [each for each in others if best.rule is not None and each.rule == best.rule]
    rest = [each for each in others if all(each is not one for one in same)]
    kept = [best, *same[:2], *rest][:KEPT]
    return [each for each, vote in zip(kept, votes_of(kept), strict=True) if vote >= _LEAST_VOTE]


def agreement(kept: Sequence[Hypothesis]) -> Floats:
    """Return for each case how far the kept hypotheses agree with the first, in [0, 1], [N]."""
    votes = votes_of(kept)
    same = np.array([each.answers == kept[0].answers for each in kept])
    given = kept[0].answers != -1
    return np.where(given, (votes[:, None] * same).sum(0) / votes.sum(), 0.0)


def votes_of(kept: Sequence[Hypothesis]) -> Floats:
    """Return the weight of each kept hypothesis, 1 for the best."""
    return np.array([2 ** (-_TEMPER * (each.total - kept[0].total)) for each in kept])


def signs(agreeing: float) -> dict[str, float]:
    """Return the features of an answer's confidence."""
    share = min(0.99, max(0.01, agreeing))
    return {"agreement": float(np.log(share / (1 - share))) / 4}


def calibrated(features: Sequence[Mapping[str, float]], right: Iterable[bool]) -> dict[str, float]:
    """Return the weights of a confidence.

    A right and a wrong answer more, of the usual features, keep few labels from certainty (rule of
    succession, Laplace).
    """
    usual = {"agreement": float(np.mean([each["agreement"] for each in features]))}
    return weights_of([*features, usual, usual], [*right, True, False])


@dataclass(frozen=True)
class OutOfFold:
    """Answers to labelled cases by a choice that did not know their labels; each array is [N].

    Attributes:
        right: whether the fitted program's answer is right.
        answers: the answer; see :attr:`Evidence.answers`.
        chosen: number of the candidate that gave it; -1 for a rule.
        confidence: its confidence, from a fit without the case's fold.
        agreeing: see :func:`agreement`.
        neighbours, majority, zero_shot: whether the baselines are right.
        weights: of the confidence, fitted on all.
    """

    right: Any
    answers: Ints
    chosen: Ints
    confidence: Floats
    agreeing: Floats
    neighbours: Any
    majority: Any
    zero_shot: Any
    weights: dict[str, float]


def out_of_fold(evidence: Evidence, seed: int) -> OutOfFold:
    """Repeat the choice without each fold and let it answer the fold's cases."""
    n = len(evidence.cases)
    folds = _folds(evidence, seed)
    right, neighbours, majority = (np.zeros(n, bool) for _ in range(3))
    agreeing, answers, chosen = np.zeros(n), np.full(n, -1), np.full(n, -1)
    for fold in range(folds.max() + 1):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        for cases, allowed in evidence.fair_to(evidence.hypotheses(train), test):
            kept = kept_of(allowed)
            right[cases], answers[cases] = kept[0].right[cases], kept[0].answers[cases]
            agreeing[cases] = agreement(kept)[cases]
            chosen[cases] = -1 if kept[0].candidate is None else kept[0].candidate
        if len(evidence.classes):
            near, common = baselines(evidence, train, test)
            neighbours[test], majority[test] = near, common
    features = [signs(value) for value in agreeing]
    confidence = np.zeros(n)
    for fold in range(folds.max() + 1):
        inside = folds != fold
        weights = calibrated([features[i] for i in np.flatnonzero(inside)], right[inside])
        for index in np.flatnonzero(~inside):
            confidence[index] = probability(weights, features[int(index)])
    return OutOfFold(
        right,
        answers,
        chosen,
        confidence,
        agreeing,
        neighbours,
        majority,
        evidence.right[0] if len(evidence.right) else np.zeros(n, bool),
        calibrated(features, right),
    )


def _folds(evidence: Evidence, seed: int) -> Ints:
    """Return the fold of each case; classes are spread over the folds."""
    n = len(evidence.cases)
    order = np.random.default_rng(seed).permutation(n)
    if len(evidence.classes):
        order = order[np.argsort(evidence.classes[order], kind="stable")]
    folds = np.zeros(n, np.int64)
    folds[order] = np.arange(n) % min(FOLDS, n)
    return folds


def baselines(evidence: Evidence, train: Ints, test: Ints) -> tuple[Any, Any]:
    """Return whether nearest neighbours and the commonest answer are right on test cases, [T]."""
    right = evidence.classes[test]
    near = nearest([*evidence.spaces.values()], evidence.classes, train, test)
    return near == right, np.bincount(evidence.classes[train]).argmax() == right


def nearest(spaces: Sequence[Floats], classes: Ints, train: Ints, test: Ints) -> Ints:
    """Return the commonest class of the nearest training cases; how many, and by which features,
    the training labels choose.

    Features are brought to mean 0 and deviation 1 first.
    """
    from scipy.spatial.distance import cdist

    best, found = -1.0, classes[test]
    for features in spaces:
        spread = features[train].std(0)
        scaled = (features - features[train].mean(0)) / np.where(spread > 0, spread, 1.0)
        distances = cdist(scaled, scaled[train], "sqeuclidean")  # [N, T]
        ranked = classes[train][np.argsort(distances, axis=1, kind="stable")]
        own = ranked[train][:, 1:]  # the first neighbour of a training case is the case itself
        for count in _NEIGHBOURS:
            share = float((_commonest(own, count) == classes[train]).mean())
            if share > best:
                best, found = share, _commonest(ranked[test], count)
    return found


def _commonest(rows: Ints, count: int) -> Ints:
    return np.array([np.bincount(row[:count]).argmax() for row in rows])


@dataclass(frozen=True)
class Risk:
    """What can be promised about the answers that are given.

    Attributes:
        limit: least confidence of an answer that is given; above 1, none is.
        bound: with 90 % confidence, at most this share of them is wrong; of all answers, if
            nothing is certified.
        answered: share of the labelled cases that are answered.
        certified: whether the bound is at most the risk that was asked for.
        more: further labels that are needed at least, if none of those is wrong.
    """

    limit: float
    bound: float
    answered: float
    certified: bool
    more: int = 0


def certify(confidence: Floats, right: Any, risk: float) -> Risk:
    """Return the lowest limit of confidence that surely keeps a risk.

    If none does, it is the lowest that is as likely to keep it as not, with the bound of all
    answers: one of a limit that was chosen by the same cases would not hold. Giving every answer is
    tried first. Where labels suffice for more than that, a part of the error
    rate (``_OF_ALL``) is kept for limits, from the surest half of the cases on, until one fails.

    Args:
        confidence, right: out-of-fold confidence and whether the answer is right, [N].
    """
    order = np.argsort(-confidence, kind="stable")
    falling, wrong = confidence[order], np.cumsum(~right[order])
    ends = np.flatnonzero(np.append(falling[1:] < falling[:-1], True)).tolist()
    n, error = len(right), 1 - SURE
    needed = int(np.ceil(np.log(error) / np.log(1 - risk)))
    of_all = error if n < 2 * needed else _OF_ALL * error
    if upper_bound(int(wrong[-1]), n, of_all) <= risk:
        return Risk(float(falling[-1]), risk, 1.0, True)
    held = None
    for end in ends if of_all < error else ():
        if 2 * (end + 1) >= n:
            if upper_bound(int(wrong[end]), end + 1, error - of_all) > risk:
                break
            held = end
    if held is not None:
        return Risk(float(falling[held]), risk, (held + 1) / n, True)
    more = 1
    while upper_bound(int(wrong[-1]), n + more, error) > risk:
        more += 1
    likely = [end for end in ends if upper_bound(int(wrong[end]), end + 1, 0.5) <= risk]
    limit = float(falling[likely[-1]]) if likely else _NO_LIMIT
    answered = (likely[-1] + 1) / n if likely else 0.0
    return Risk(limit, upper_bound(int(wrong[-1]), n, error), answered, False, more)


def upper_bound(wrong: int, n: int, rate: float = 1 - SURE) -> float:
    """Return the greatest share of wrong answers that ``wrong`` of ``n`` leave possible.

    Args:
        rate: chance that the true share is greater.
    """
    from scipy.stats import beta

    return 1.0 if wrong >= n else float(beta.ppf(1 - rate, wrong + 1, n - wrong))
