"""Trackers: the real libraries where they are installed, and a guard around all of them.

MLflow and Weights & Biases are no part of the development environment; with a virtual
environment that holds them:
``python -m venv /tmp/t && /tmp/t/bin/pip install mlflow-skinny wandb pytest pytest-timeout numpy
scipy platformdirs && PYTHONPATH=. /tmp/t/bin/python -m pytest tests/evaluate/test_tracking.py``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from run_samples import a_manifest, a_row

from viper.errors import MissingExtraError, UnknownNameError, UsageError
from viper.evaluate.trackers import Tracker, open_tracker

REPORT = {
    "figures": {"acc@0.5": {"value": 0.25}},
    "groups": {"family": {"spatial & more": {"value": 0.5}}},
    "failures": {"timeout": {"share": 0.1}},
}


class Breaking:
    """Raises from the call of that name on, and counts the calls."""

    def __init__(self, where: str) -> None:
        self.where, self.calls = where, []

    def start(self, name: str, settings: Mapping[str, str]) -> None:
        self._call("start")

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self._call("log")

    def finish(self, figures: Mapping[str, float], step: int) -> None:
        self._call("finish")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name == self.where:
            raise ConnectionError("the server\nis away")


def tell(tracker: Tracker, rows: int = 20) -> None:
    tracker.start(a_manifest(settings={"trials": 3, "api_key": "s3cret"}))
    for number in range(rows):
        tracker.row(a_row(number), {"score": number / rows, "failed": 0.0})
    tracker.finish(REPORT)


@pytest.mark.parametrize(
    ("where", "calls"),
    [
        ("start", ["start"]),
        ("log", ["start", "log"]),
        ("finish", ["start", "log", "log", "finish"]),
    ],
)
def test_a_tracker_that_raises_is_switched_off_with_one_warning(
    where: str, calls: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    inner = Breaking(where)
    with caplog.at_level(logging.WARNING):
        tell(Tracker(inner, "mine"), rows=2)
    assert inner.calls == calls
    (record,) = caplog.records
    assert record.getMessage() == (
        "the tracker mine is switched off, the run goes on: ConnectionError: the server is away"
    )


def test_names_and_places_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="known: mlflow, tensorboard, wandb"):
        open_tracker("comet:x")
    with pytest.raises(UsageError, match="tensorboard:WHERE"):
        open_tracker("tensorboard")


@pytest.mark.parametrize(
    ("name", "module"),
    [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")],
)
def test_a_missing_package_is_the_pip_line(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"viper-reasoner\[{name}\]"):
        open_tracker(f"{name}:x")


def test_tensorboard_gets_curves_and_settings(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tell(open_tracker(f"tensorboard:{tmp_path}"))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {"sample/score", "running/score", "final/acc@0.5", "final/failed/timeout"} <= tags
    assert len(events.Scalars("running/score")) == 20
    assert events.Scalars("final/acc@0.5")[0].value == 0.25
    assert b"s3cret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize("store", ["folder", "sqlite"])
def test_mlflow_gets_metrics_and_parameters(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
    if store == "sqlite":
        pytest.importorskip("sqlalchemy", reason="mlflow's database stores need sqlalchemy")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"sqlite:///{tmp_path}/m.db" if store == "sqlite" else (tmp_path / "runs").as_uri()
    with caplog.at_level(logging.WARNING, logger="viper"):
        tell(open_tracker(f"mlflow:{uri}"))
    assert not [record for record in caplog.records if record.name.startswith("viper")]
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("viper")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.metrics["final/acc_0.5"] == 0.25 and run.info.status == "FINISHED"
    assert run.data.params["strategy"] == "program"
    assert "s3cret" not in str(run.data.params)
    assert len(client.get_metric_history(run.info.run_id, "running/score")) == 2


def test_wandb_works_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.WARNING, logger="viper"):
        tell(open_tracker("wandb:viper-tests"))
    assert not [record for record in caplog.records if record.name.startswith("viper")]
    wandb.teardown()  # its service process writes the file when it ends
    (log,) = tmp_path.rglob("*.wandb")
    data = log.read_bytes()
    assert b"final/acc@0.5" in data and b"running/score" in data and b"s3cret" not in data
