"""Experiment trackers: TensorBoard, MLflow, Weights & Biases.

`open_tracker` opens the service that `--track` names. `Tracker` turns a run's manifest, rows and
report into settings and figures by name, and hands these to the service. An exception of the
service switches the tracker off with one warning. It never ends the run: the run store stays the
record.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from viper.errors import MissingExtraError, UnknownNameError, UsageError
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.sample_result import SampleResult

# Limits of MLflow's servers on a parameter's value and on a name.
_LONGEST_PARAMETER, _LONGEST_NAME = 500, 250

# Results between two requests to MLflow, since each figure is a round trip.
_EVERY = 10

_log = logging.getLogger(__name__)


class TrackerService(Protocol):
    """Protocol of a service that shows a run while it goes on. Called by one thread at a time."""

    def start(self, name: str, settings: Mapping[str, str]) -> None:
        """Begin the run, or continue it after a resume."""

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Record the figures after so many results of this session."""

    def finish(self, figures: Mapping[str, float], step: int) -> None:
        """Record the report's figures and end the run."""


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
    try:
        return Tracker(TRACKERS[name](where), name)
    except ImportError:
        raise MissingExtraError(name, f"--track {name}") from None


class Tracker:
    """Tells a service about a run; the first exception switches it off, with one warning."""

    def __init__(self, service: TrackerService, name: str) -> None:
        self._service: TrackerService | None = service
        self._name, self._step = name, 0

    def start(self, manifest: Manifest) -> None:
        """Begin the run with its settings, without secrets."""
        values = manifest.to_json()
        settings = {
            "set": manifest.set.name,
            "split": manifest.set.split,
            "samples": manifest.set.samples,
            **{name: values[name] for name in ("metric", "seeds", "strategy", "api", "profile")},
            **{f"model.{role}": model for role, model in values["models"].items()},
            **{f"settings.{name}": value for name, value in values["settings"].items()},
            "revision": values["environment"]["revision"],
            "fingerprint": manifest.fingerprint,
        }
        texts = {name: str(value) for name, value in settings.items()}
        self._tell("start", f"{manifest.set.name} {manifest.strategy}", texts)

    def row(self, row: SampleResult, running: Mapping[str, float]) -> None:
        """Record a stored result; ``running`` holds figures over all results so far, by name."""
        self._step += 1
        sample = {"sample/score": row.score, "sample/seconds": row.seconds}
        figures = {f"running/{name}": value for name, value in running.items()}
        self._tell("log", sample | figures, self._step)

    def finish(self, report: Mapping[str, Any]) -> None:
        """End the run with the figures and shares of failures of ``report.json``."""
        figures = {name: part["value"] for name, part in report["figures"].items()}
        for kind, groups in report["groups"].items():
            figures |= {f"{kind}/{name}": part["value"] for name, part in groups.items()}
        figures |= {f"failed/{kind}": part["share"] for kind, part in report["failures"].items()}
        final = {f"final/{name}": float(value) for name, value in figures.items()}
        self._tell("finish", final, self._step)

    def _tell(self, what: str, *values: Any) -> None:
        if self._service is None:
            return
        try:
            getattr(self._service, what)(*values)
        except Exception as error:  # noqa: BLE001 - a tracker's trouble is not the run's
            self._service = None
            line = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            _log.warning("the tracker %s is switched off, the run goes on: %s", self._name, line)


class _TensorBoard:
    """Event files in a folder: settings as text, figures as curves."""

    def __init__(self, folder: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._open, self._folder = SummaryWriter, folder
        self._writer: Any = None

    def start(self, name: str, settings: Mapping[str, str]) -> None:
        self._writer = self._open(self._folder)
        lines = [f"    {name}: {value}" for name, value in settings.items()]
        self._writer.add_text("settings", "\n".join(lines))

    def log(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def finish(self, figures: Mapping[str, float], step: int) -> None:
        self.log(figures, step)
        self._writer.close()


class _MLflow:
    """A tracking server or store (``http://…``, ``sqlite:///FILE``, a folder)."""

    def __init__(self, uri: str) -> None:
        from mlflow import MlflowClient

        self._open, self._uri = MlflowClient, uri
        self._client: Any = None
        self._run = ""

    def start(self, name: str, settings: Mapping[str, str]) -> None:
        self._client = self._open(tracking_uri=self._uri)
        known = self._client.get_experiment_by_name("viper")
        number = known.experiment_id if known else self._client.create_experiment("viper")
        self._run = self._client.create_run(number, run_name=name).info.run_id
        for key, value in settings.items():
            self._client.log_param(self._run, _mlflow_name(key), value[:_LONGEST_PARAMETER])

    def log(self, figures: Mapping[str, float], step: int) -> None:
        if step % _EVERY == 0:
            self._log({key: figures[key] for key in figures if key.startswith("running/")}, step)

    def finish(self, figures: Mapping[str, float], step: int) -> None:
        self._log(figures, step)
        self._client.set_terminated(self._run)

    def _log(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self._client.log_metric(self._run, _mlflow_name(name), value, step=step)


def _mlflow_name(text: str) -> str:
    """Replace the characters that MLflow refuses in names."""
    return re.sub(r"[^\w\-. /]", "_", text)[:_LONGEST_NAME]


class _Wandb:
    """A project of Weights & Biases; ``WANDB_MODE=offline`` keeps it on this disk."""

    def __init__(self, project: str) -> None:
        import wandb

        self._wandb, self._project = wandb, project
        self._run: Any = None

    def start(self, name: str, settings: Mapping[str, str]) -> None:
        # no console capture, no code upload, no machine statistics: figures and settings only
        quiet = self._wandb.Settings(
            console="off", disable_git=True, save_code=False, x_disable_stats=True, silent=True
        )
        self._run = self._wandb.init(
            project=self._project, name=name, config=dict(settings), settings=quiet
        )

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self._run.log(dict(figures))

    def finish(self, figures: Mapping[str, float], step: int) -> None:
        self._run.summary.update(dict(figures))
        self._run.finish()


TRACKERS: dict[str, Callable[[str], TrackerService]] = {
    "tensorboard": _TensorBoard,
    "mlflow": _MLflow,
    "wandb": _Wandb,
}
