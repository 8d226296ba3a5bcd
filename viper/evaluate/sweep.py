"""Repeated evaluations and sweeps of a setting. Each is a stored run.

Source: Stanić et al. 2024, sec. 3.2: the order of hyperparameters on the few-shot samples was
close to their order on the whole validation set. Here both orders are measured and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from viper.evaluate.campaign import RunProgress, SampledEvaluation, answer_all
from viper.strategies.base import Components

TEMPERATURE = "temperature"

Report = Callable[[str, RunProgress], None]


@dataclass(frozen=True)
class SweepPoint:
    """Scores of one value of a setting.

    Attributes:
        shots: mean score on the few labelled samples.
        full: mean score on the samples to compare with; None without such samples.
    """

    value: float
    shots: float
    full: float | None = None


@dataclass(frozen=True)
class SweepResult:
    """Scores of all values of one setting, in rising order.

    Attributes:
        name: ``temperature``, or a threshold as ``detector.threshold``.
        current: the profile's value, which is preferred among equals.
    """

    name: str
    current: float
    points: tuple[SweepPoint, ...]

    @property
    def chosen(self) -> SweepPoint:
        """Return the best value on the shots.

        Of equals, take the nearest to the current, then the lower.
        """

        def merit(point: SweepPoint) -> tuple[float, float, float]:
            return point.shots, -round(abs(point.value - self.current), 9), -point.value

        return max(self.points, key=merit)

    @property
    def agreement(self) -> float | None:
        """Return Kendall's tau-b between the two orders, in [-1, 1].

        None if one order is missing or all its values are equal.
        """
        full = [point.full for point in self.points if point.full is not None]
        shots = [point.shots for point in self.points]
        if len(full) < len(shots) or len(set(full)) < 2 or len(set(shots)) < 2:
            return None
        from scipy.stats import kendalltau

        return float(kendalltau(shots, full).statistic)

    @property
    def regret(self) -> float | None:
        """Return how much the best score on ``full`` exceeds the chosen value's, or None."""
        full = [point.full for point in self.points if point.full is not None]
        chosen = self.chosen.full
        return None if chosen is None or not full else max(full) - chosen

    def to_json(self) -> dict[str, Any]:
        """Return the sweep as JSON values."""
        return {
            "setting": self.name,
            "current": self.current,
            "chosen": self.chosen.value,
            "agreement": self.agreement,
            "regret": self.regret,
            "values": [vars(point) for point in self.points],
        }


@dataclass(frozen=True)
class SweepSetup:
    """Samples and folder of a sweep.

    Attributes:
        shots: the few labelled samples.
        full: samples whose order the shots should predict; None compares with no samples.
        folder: folder for the runs.
        document: the profile as JSON values, for their manifests.
    """

    shots: SampledEvaluation
    full: SampledEvaluation | None
    folder: Path
    document: Mapping[str, Any]


def sweep(
    components: Components,
    name: str,
    values: Sequence[float],
    setup: SweepSetup,
    report: Report = lambda name, running: None,
) -> SweepResult:
    """Try every value. All other settings stay, and self-tuning is off.

    Args:
        name: ``temperature`` or a sensitivity.
        values: the current one is tried, too.
    """
    current = current_value(components, name)
    points = []
    for value in in_order(values, current):
        scores: dict[str, float] = {}
        for kind, sampled in (("shots", setup.shots), ("full", setup.full)):
            if sampled is None:
                continue
            options = sampled.evaluation.options.changed(self_tune=False)
            parts = components
            if name == TEMPERATURE:
                options = options.changed(temperature=value)
            else:
                parts = components.with_thresholds({name: value})
            folder = setup.folder / f"{name}-{float(value)}-{kind}"
            say = partial(report, f"{name} {value:g}, {kind}")
            results = answer_all(parts, sampled.under(options), folder, setup.document, say)
            scores[kind] = sum(result.score for result in results) / len(results)
        points.append(SweepPoint(value, scores["shots"], scores.get("full")))
    return SweepResult(name, current, tuple(points))


def current_value(components: Components, name: str) -> float:
    """Return the profile's value of a setting; for a threshold, without self-tuning.

    Raises:
        UsageError: a sensitivity that the profile does not declare.
    """
    if name == TEMPERATURE:
        return components.settings.temperature
    components.with_thresholds({name: 0.5})
    return components.toolbox.settings.start_thresholds(self_tune=False)[name]


def values_between(low: float, high: float, count: int = 4) -> tuple[float, ...]:
    """Return ``count`` evenly spaced values (at least two), rounded to three places."""
    step = (high - low) / (count - 1)
    return tuple(dict.fromkeys(round(low + place * step, 3) for place in range(count)))


def in_order(values: Sequence[float], current: float) -> tuple[float, ...]:
    """Return the values to try, rising and without repetition, with the current one."""
    return tuple(sorted({*values, current}))
