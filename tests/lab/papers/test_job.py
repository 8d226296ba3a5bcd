"""A reproduction as a whole: what its report says about the work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from viper.commands.options import ProfileChoice
from viper.profiles.wiring import load_profile
from viper_lab.papers import job
from viper_lab.papers.cell_runner import CellRunner
from viper_lab.papers.job import PaperJob, second_writer
from viper_lab.papers.options import Options
from viper_lab.papers.result import Reproduction


class Job(PaperJob):
    """Has nothing to load; answers and judging advance its clock."""

    def writers(self) -> dict[str, Any]:
        return {}

    @contextmanager
    def runner(self) -> Iterator[CellRunner]:
        scale = SimpleNamespace(seeds=(0,))
        yield cast(CellRunner, SimpleNamespace(scale=scale, check_seeds=lambda cells: None))

    def study(self, runner: CellRunner) -> Any:
        now[0] += 100  # drawing samples
        return SimpleNamespace(cells=list, reproduce=self.judged)

    def judged(self, runner: CellRunner) -> Reproduction:
        now[0] += 1
        return Reproduction("x", [], [], [], {"quick": True})


now = [0.0]


def test_seconds_are_those_of_answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer_together(*_: Any) -> None:
        now[0] += 40

    monkeypatch.setattr(job, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(job.workers, "answer_together", answer_together)
    options = Options(False, 1, 2, tmp_path, "world", None, None, True, ProfileChoice())
    assert Job(options).run(1) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["facts"] == {"quick": True, "seconds": 41.0}


@pytest.mark.parametrize(("profile", "second"), [("auto", True), ("cpu", False)])
def test_the_second_language_model_is_the_small_one_of_the_profile_that_is_opened(
    profile: str, second: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIPER_HOME", str(tmp_path))
    monkeypatch.delenv("VIPER_PROFILE", raising=False)
    choice = ProfileChoice(profile=profile)
    options = Options(False, 1, 2, tmp_path, "world", None, None, True, choice)
    main = load_profile("embedded").components()
    found = second_writer(options, None, main)
    assert set(found) == ({"second"} if second else set())
    assert all(parts.toolbox is main.toolbox for parts in found.values())
