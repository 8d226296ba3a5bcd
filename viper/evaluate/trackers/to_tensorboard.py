"""Tracker for TensorBoard: settings as text, running figures as curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viper.errors import MissingExtraError
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.sample_result import SampleResult
from viper.evaluate.trackers.tracking import final_figures, settings_of


class TensorBoardTracker:
    """Writes event files to a folder.

    Raises:
        MissingExtraError: the package ``tensorboard`` is not installed.
    """

    def __init__(self, folder: str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("tensorboard", "--track tensorboard") from None
        self._open, self._folder = SummaryWriter, folder
        self._writer: Any = None
        self._step = 0

    def start(self, manifest: Manifest) -> None:
        self._writer = self._open(self._folder)
        lines = [f"    {name}: {value}" for name, value in settings_of(manifest).items()]
        self._writer.add_text("settings", "\n".join(lines))

    def row(self, row: SampleResult, running: Mapping[str, float]) -> None:
        self._step += 1
        self._writer.add_scalar("sample/score", row.score, self._step)
        self._writer.add_scalar("sample/seconds", row.seconds, self._step)
        for name, value in running.items():
            self._writer.add_scalar(f"running/{name}", value, self._step)

    def finish(self, report: Mapping[str, Any]) -> None:
        for name, value in final_figures(report).items():
            self._writer.add_scalar(f"final/{name}", value, self._step)
        self._writer.close()
