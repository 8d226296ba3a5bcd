"""Tracker for MLflow: settings as parameters, running and final figures as metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from viper.errors import MissingExtraError
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.sample_result import SampleResult
from viper.evaluate.trackers.tracking import final_figures, settings_of

_EXPERIMENT = "viper"
# Older MLflow servers refuse longer values.
_LONGEST_PARAMETER = 500
# Results between two requests, since each request is a round trip.
_EVERY = 10


class MLflowTracker:
    """Logs to a tracking server or store (``http://…``, ``sqlite:///FILE``, a folder).

    Raises:
        MissingExtraError: neither ``mlflow`` nor ``mlflow-skinny`` is installed.
    """

    def __init__(self, uri: str) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError:
            raise MissingExtraError("mlflow", "--track mlflow") from None
        self._open, self._uri = MlflowClient, uri
        self._client: Any = None
        self._run = ""
        self._step = 0

    def start(self, manifest: Manifest) -> None:
        self._client = self._open(tracking_uri=self._uri)
        known = self._client.get_experiment_by_name(_EXPERIMENT)
        number = known.experiment_id if known else self._client.create_experiment(_EXPERIMENT)
        name = f"{manifest.set.name} {manifest.strategy}"
        self._run = self._client.create_run(number, run_name=name).info.run_id
        for key, value in settings_of(manifest).items():
            self._client.log_param(self._run, _name(key), value[:_LONGEST_PARAMETER])

    def row(self, row: SampleResult, running: Mapping[str, float]) -> None:
        self._step += 1
        if self._step % _EVERY == 0:
            for name, value in running.items():
                self._log(f"running/{name}", value)

    def finish(self, report: Mapping[str, Any]) -> None:
        for name, value in final_figures(report).items():
            self._log(f"final/{name}", value)
        self._client.set_terminated(self._run)

    def _log(self, name: str, value: float) -> None:
        self._client.log_metric(self._run, _name(name), value, step=self._step)


def _name(text: str) -> str:
    """Return a name that MLflow admits: other characters become ``_``."""
    return re.sub(r"[^\w\-. /]", "_", text)[:250]
