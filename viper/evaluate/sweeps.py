"""Tries values of a setting on labelled samples, one stored run for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from viper.evaluate.answered import Drawn, answered
from viper.evaluate.engines.runner import Running
from viper.strategies.base import Components
from viper.tuning.sweep import Sweep, Tried, in_order

TEMPERATURE = "temperature"

Report = Callable[[str, Running], None]


@dataclass(frozen=True)
class Swept:
    """What is tried on.

    Attributes:
        shots: the few labelled samples.
        full: the samples whose order the shots shall foretell; None compares with none.
        folder: takes the runs.
        document: the profile as JSON values, for their manifests.
    """

    shots: Drawn
    full: Drawn | None
    folder: Path
    document: Mapping[str, Any]


def sweep(
    components: Components,
    name: str,
    values: Sequence[float],
    swept: Swept,
    report: Report = lambda name, running: None,
) -> Sweep:
    """Every value, tried with everything else as it is and no self-tuning.

    Args:
        name: ``temperature`` or a sensitivity.
        values: the current one is tried, too.
    """
    current = current_value(components, name)
    tried = []
    for value in in_order(values, current):
        scores: dict[str, float] = {}
        for kind, drawn in (("shots", swept.shots), ("full", swept.full)):
            if drawn is None:
                continue
            parts, asked = _changed(components, drawn, name, value)
            folder = swept.folder / f"{name}-{float(value)}-{kind}"
            say = partial(report, f"{name} {value:g}, {kind}")
            rows = answered(parts, asked, folder, swept.document, say)
            scores[kind] = sum(row.score for row in rows) / len(rows)
        tried.append(Tried(value, scores["shots"], scores.get("full")))
    return Sweep(name, current, tuple(tried))


def current_value(components: Components, name: str) -> float:
    """The profile's value of a setting; of a sensitivity, where nothing tunes it.

    Raises:
        UsageError: a sensitivity that the profile does not declare.
    """
    if name == TEMPERATURE:
        return components.settings.temperature
    components.with_thresholds({name: 0.5})
    return components.hub.settings.start_thresholds(self_tune=False)[name]


def _changed(
    components: Components, drawn: Drawn, name: str, value: float
) -> tuple[Components, Drawn]:
    options = replace(drawn.evaluation.options, self_tune=False)
    if name == TEMPERATURE:
        return components, drawn.under(replace(options, temperature=value))
    return components.with_thresholds({name: value}), drawn.under(options)
