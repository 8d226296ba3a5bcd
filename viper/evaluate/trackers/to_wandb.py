"""Tracker for Weights & Biases: settings as its configuration, figures as its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viper.errors import MissingExtraError
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.sample_result import SampleResult
from viper.evaluate.trackers.tracking import final_figures, settings_of


class WandbTracker:
    """Logs to a project; ``WANDB_MODE=offline`` keeps it on this disk.

    Raises:
        MissingExtraError: the package ``wandb`` is not installed.
    """

    def __init__(self, project: str) -> None:
        try:
            import wandb
        except ImportError:
            raise MissingExtraError("wandb", "--track wandb") from None
        self._wandb, self._project = wandb, project
        self._run: Any = None

    def start(self, manifest: Manifest) -> None:
        # no console capture, no code upload, no machine statistics: figures and settings only
        quiet = self._wandb.Settings(
            console="off", disable_git=True, save_code=False, x_disable_stats=True, silent=True
        )
        self._run = self._wandb.init(
            project=self._project,
            name=f"{manifest.set.name} {manifest.strategy}",
            config=settings_of(manifest),
            settings=quiet,
        )

    def row(self, row: SampleResult, running: Mapping[str, float]) -> None:
        values = {f"running/{name}": value for name, value in running.items()}
        self._run.log({"sample/score": row.score, "sample/seconds": row.seconds, **values})

    def finish(self, report: Mapping[str, Any]) -> None:
        self._run.summary.update(
            {f"final/{name}": value for name, value in final_figures(report).items()}
        )
        self._run.finish()
