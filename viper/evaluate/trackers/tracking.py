"""Protocol of experiment trackers: TensorBoard, MLflow, Weights & Biases.

An exception of a tracker during the run switches the tracker off with one warning. It never ends
the run. The run store stays the record.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from viper.errors import UnknownNameError, UsageError
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.sample_result import SampleResult

TRACKERS = {
    "tensorboard": "viper.evaluate.trackers.to_tensorboard:TensorBoardTracker",
    "mlflow": "viper.evaluate.trackers.to_mlflow:MLflowTracker",
    "wandb": "viper.evaluate.trackers.to_wandb:WandbTracker",
}

_log = logging.getLogger(__name__)


class Tracker(Protocol):
    """Protocol of a service that shows a run while it goes on. Called by one thread at a time."""

    def start(self, manifest: Manifest) -> None:
        """Begin the run, or continue it after a resume."""

    def row(self, row: SampleResult, running: Mapping[str, float]) -> None:
        """Record a stored result; ``running`` holds figures over all results so far, by name."""

    def finish(self, report: Mapping[str, Any]) -> None:
        """End the run; the report is as in ``report.json``."""


def open_tracker(spec: str) -> Tracker:
    """Open the tracker that ``NAME:WHERE`` names. It never raises once it is open.

    ``tensorboard:DIR``, ``mlflow:URI``, ``wandb:PROJECT``.

    Raises:
        UnknownNameError: no tracker of that name.
        UsageError: nothing after the colon.
        MissingExtraError: its package is not installed.
    """
    name, _, where = spec.partition(":")
    if name not in TRACKERS:
        raise UnknownNameError("tracker", name, TRACKERS)
    if not where:
        raise UsageError(f"--track {name}: says not where to; write {name}:WHERE")
    module, _, class_name = TRACKERS[name].partition(":")
    return GuardedTracker(getattr(importlib.import_module(module), class_name)(where), name)


class GuardedTracker:
    """Tracker that the first exception switches off, with one warning."""

    def __init__(self, tracker: Tracker, name: str) -> None:
        self._tracker: Tracker | None = tracker
        self._name = name

    def start(self, manifest: Manifest) -> None:
        self._tell("start", manifest)

    def row(self, row: SampleResult, running: Mapping[str, float]) -> None:
        self._tell("row", row, running)

    def finish(self, report: Mapping[str, Any]) -> None:
        self._tell("finish", report)

    def _tell(self, what: str, *values: Any) -> None:
        if self._tracker is None:
            return
        try:
            getattr(self._tracker, what)(*values)
        except Exception as error:  # noqa: BLE001 - a tracker's trouble is not the run's
            self._tracker = None
            line = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            _log.warning("the tracker %s is switched off, the run goes on: %s", self._name, line)


def settings_of(manifest: Manifest) -> dict[str, str]:
    """Return the run's parameters for a tracker, without secrets."""
    values = manifest.to_json()
    settings = {
        "set": values["set"]["name"],
        "split": values["set"]["split"],
        "samples": values["set"]["samples"],
        **{name: values[name] for name in ("metric", "seeds", "strategy", "api", "profile")},
        **{f"model.{role}": model for role, model in values["models"].items()},
        **{f"settings.{name}": value for name, value in values["settings"].items()},
        "revision": values["environment"]["revision"],
        "fingerprint": manifest.fingerprint,
    }
    return {name: str(value) for name, value in settings.items()}


def final_figures(report: Mapping[str, Any]) -> dict[str, float]:
    """Return a report's figures and shares of failures, by name."""
    figures = {name: float(part["value"]) for name, part in report["figures"].items()}
    for kind, groups in report["groups"].items():
        figures |= {f"{kind}/{name}": float(part["value"]) for name, part in groups.items()}
    figures |= {f"failed/{kind}": float(part["share"]) for kind, part in report["failures"].items()}
    return figures
