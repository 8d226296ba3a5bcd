"""Fits the confidence of a profile on labelled samples, and measures how well it is calibrated.

Source: Guo et al. 2017 for the expected calibration error; Geifman and El-Yaniv 2017 for risk and
coverage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from viper.agreement import is_correct
from viper.errors import UsageError
from viper.evaluate.intervals import Estimate, Floats, Ints, Values, cluster_numbers, share
from viper.evaluate.runs.store import RunStore
from viper.strategies.confidence import UNCALIBRATED, Confidence, features, kind_of, probability

# Each of ten folds must hold an answer or so of either kind, or its fit says nothing about them.
LEAST_ANSWERS, LEAST_OF_EACH = 50, 5

# Ten folds leave 90 % of few answers to fit on; ten bins are those of Guo et al. 2017.
FOLDS, BINS = 10, 10

# Points of the curve of risk by coverage, which stands in the profile for people to read.
STEPS = 24

# Weight of the quadratic penalty, as a standard normal prior of each weight: a feature that few
# answers have keeps a small one.
_PENALTY = 1.0


class Labelled(NamedTuple):
    """An answer to a labelled sample.

    Attributes:
        kind: of the answer, see :func:`viper.strategies.confidence.kind_of`.
        cluster: answers of one cluster are not independent; "" is alone.
    """

    features: Mapping[str, float]
    right: bool
    kind: str = ""
    cluster: str = ""


def labelled_answers(store: RunStore) -> list[Labelled]:
    """Return the answers of a stored run; those without a trace or a confidence are left out."""
    answers = []
    for row in store.rows():
        trace = store.read_trace(row.sample_id, row.seed) if row.prediction is not None else None
        if trace is not None and trace.answer is not None:
            values = features(trace)
            if not UNCALIBRATED & values.keys():
                right = is_correct(row.score)
                answers.append(Labelled(values, right, kind_of(trace.answer), row.cluster))
    return answers


def fit_confidence(answers: Sequence[Labelled]) -> tuple[Confidence, Floats]:
    """Return the confidence fitted on labelled answers, and each answer's, float64 [N].

    The confidence of each answer, and with it the steps, come from a fit without its fold; answers
    of one cluster are in the same fold. Kinds of answers with enough answers of their own have a
    calibration within.

    Raises:
        UsageError: there are too few answers, or too few right or wrong ones.
    """
    right = np.array([answer.right for answer in answers], dtype=bool)
    if not _are_enough(right):
        raise UsageError(
            f"{len(right)} answers, {int((~right).sum())} of them wrong; confidence needs at least "
            f"{LEAST_ANSWERS} answers with {LEAST_OF_EACH} right and {LEAST_OF_EACH} wrong: "
            "raise --limit"
        )
    whole, held_out = _calibrated(answers, right)
    of_kind: dict[str, list[int]] = {}
    for index, answer in enumerate(answers):
        of_kind.setdefault(answer.kind, []).append(index)
    kinds = {}
    for kind, indices in of_kind.items():
        if kind and len(of_kind) > 1 and _are_enough(right[indices]):
            own, held_out[indices] = _calibrated([answers[i] for i in indices], right[indices])
            kinds[kind] = own
    return replace(whole, kinds=kinds), held_out


def _are_enough(right: Any) -> bool:
    return len(right) >= LEAST_ANSWERS and min(right.sum(), (~right).sum()) >= LEAST_OF_EACH


def _calibrated(answers: Sequence[Labelled], right: Any) -> tuple[Confidence, Floats]:
    clusters = cluster_numbers([answer.cluster for answer in answers], len(answers))
    folds = (np.random.default_rng(0).permutation(int(clusters.max()) + 1) % FOLDS)[clusters]
    held_out = np.zeros(len(answers))
    for fold in range(FOLDS):
        weights = _fit([answer for answer, own in zip(answers, folds, strict=True) if own != fold])
        for index in np.flatnonzero(folds == fold):
            held_out[index] = probability(weights, answers[int(index)].features)
    unit = round(len(answers) / (int(clusters.max()) + 1), 4)
    return Confidence(_fit(answers), steps_of(held_out, right), unit), held_out


def _fit(answers: Sequence[Labelled]) -> dict[str, float]:
    return weights_of([answer.features for answer in answers], [answer.right for answer in answers])


def weights_of(values: Sequence[Mapping[str, float]], hits: Iterable[bool]) -> dict[str, float]:
    """Return the weights of a logistic regression with a quadratic penalty.

    Args:
        values: features of each answer by name; absent ones are 0.
        hits: whether each answer is right.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    names = sorted({name for features in values for name in features})
    rows = np.array([[features.get(name, 0.0) for name in names] for features in values])
    rows = np.hstack([np.ones((len(rows), 1)), rows])
    right = np.array([*hits], dtype=float)
    penalty = _PENALTY * np.array([0.0, *[1.0] * len(names)])

    def loss(weights: Floats) -> tuple[float, Floats]:
        odds = rows @ weights
        # logistic loss with a ridge penalty: convex, so that the minimum is unique
        value = np.logaddexp(0, odds).sum() - right @ odds + (penalty * weights**2).sum() / 2
        # its exact gradient; differences would take a loss for each weight
        return float(value), rows.T @ (expit(odds) - right) + penalty * weights

    # A failed check may weigh nothing, never for the answer: which checks ran is no evidence.
    bounds = [(None, 0.0 if name.startswith("failed:") else None) for name in ("", *names)]
    start = np.zeros(len(names) + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return dict(zip(["intercept", *names], np.round(found.x, 4).tolist(), strict=True))


def steps_of(confidence: Floats, right: Any) -> tuple[tuple[float, int, int], ...]:
    """Return ``(confidence, answered, wrong)`` at falling confidences, in ``STEPS`` steps at most.

    Args:
        right: bool [N].
    """
    order = np.argsort(-confidence, kind="stable")
    falling, wrong = confidence[order], np.cumsum(~right[order])
    lasts = np.flatnonzero(np.append(falling[1:] < falling[:-1], True))
    kept = lasts[np.unique(np.linspace(0, len(lasts) - 1, STEPS).astype(int))]
    return tuple((float(falling[i]), int(i) + 1, int(wrong[i])) for i in kept)


class RiskCoverage(NamedTuple):
    """How much the confidence of answers tells.

    Attributes:
        calibration_error: expected calibration error over ten bins of equal width, in [0, 1].
        area: area under the curve of risk by coverage, in [0, 1]; the share of wrong answers if the
            confidence tells nothing.
        steps: see :func:`steps_of`.
        at: risk of the most confident answers, by the share of answers that is given.
    """

    calibration_error: Estimate
    area: Estimate
    steps: tuple[tuple[float, int, int], ...]
    at: Mapping[str, Estimate]


# Each resample sorts all answers twice, and reports are built often.
_RESAMPLES = 200

# Half of the answers, all of them, and the range between in which people abstain.
COVERAGES = (0.5, 0.7, 0.8, 0.9, 1.0)


def risk_coverage(confidence: Values, right: Iterable[bool]) -> RiskCoverage:
    """Measure the confidence of answers; intervals are of a bootstrap over answers.

    Args:
        confidence: at least one.
    """
    given, hits = np.array(confidence, dtype=float), np.array(list(right), dtype=bool)
    ranks = np.unique(-given, return_inverse=True)[1]
    random = np.random.default_rng(0)
    drawn = []
    for _ in range(_RESAMPLES):
        draw = random.integers(0, len(given), len(given))
        drawn.append((_calibration_error(given[draw], hits[draw]), _area(ranks[draw], hits[draw])))

    def estimate(value: float, of_draws: Sequence[float]) -> Estimate:
        low, high = np.percentile(of_draws, [2.5, 97.5])
        return Estimate(value, len(given), min(float(low), value), max(float(high), value))

    errors, areas = zip(*drawn, strict=True)
    wrong = (~hits[np.argsort(-given, kind="stable")]).tolist()
    return RiskCoverage(
        estimate(_calibration_error(given, hits), errors),
        estimate(_area(ranks, hits), areas),
        steps_of(given, hits),
        {f"{c:.0%}": share(wrong[: max(1, round(c * len(wrong)))]) for c in COVERAGES},
    )


def _calibration_error(given: Floats, hits: Any) -> float:
    bins = np.minimum((given * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, weights=hits - given, minlength=BINS)
    return float(np.abs(gaps).sum() / len(given))


def _area(ranks: Ints, hits: Any) -> float:
    # A stable sort by 16 bits and then by the next 16: NumPy sorts those in linear time.
    order = np.argsort(ranks.astype(np.uint16), kind="stable")
    order = order[np.argsort((ranks >> 16)[order].astype(np.uint16), kind="stable")]
    wrong = ~hits[order]
    return float((np.cumsum(wrong) / np.arange(1, len(wrong) + 1)).mean())
