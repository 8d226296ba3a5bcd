"""Actors of a Ray on this machine: the same report as with threads, whatever dies on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.evaluate.fake_backends import a_set
from tests.evaluate.ray_backends import BrokenRecipe
from viper.commands.evaluating import ProfileRecipe
from viper.commands.options import ProfileChoice
from viper.errors import ModelError, UsageError
from viper.evaluate.campaign import run
from viper.evaluate.engines import ray as engine
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.ray import RayEngine, WorkerPool, manifest_differences, run_manifest
from viper.evaluate.engines.ray_actor import ActorSettings, EvaluationWork, Recipe
from viper.evaluate.engines.ray_cluster import Share, connected
from viper.evaluate.engines.sample_runner import SampleRunner, items
from viper.evaluate.evaluation import Evaluation, manifest_of
from viper.evaluate.metrics import metric
from viper.evaluate.reports.report import report
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.runs.store import RunStore

pytest.importorskip("ray", reason="the extra ray is not installed")

REPOSITORY = Path(__file__).resolve().parents[2]
IN_FLIGHT = 4


@pytest.fixture(scope="module", autouse=True)
def ray_here() -> Iterator[None]:
    with connected(None, 2.0):
        yield


@dataclass(frozen=True)
class Bench:
    """A set of questions, and a folder whose files say at which of them an actor dies."""

    folder: Path
    evaluation: Evaluation

    @classmethod
    def of(cls, folder: Path, questions: int) -> Bench:
        csv, profile = a_set(folder, questions)
        flags = folder / "flags"
        flags.mkdir()
        text = profile.read_text()
        text = text.replace("fake_backends:Writer", "ray_backends:DeadlyWriter")
        profile.write_text(text.replace('model = "writer"', f'model = "{flags}"'))
        return cls(folder, Evaluation(str(csv)))

    def dies(self, when: str, question: int) -> None:
        (self.folder / "flags" / f"{when}-{question}").touch()

    def recipe(self) -> ProfileRecipe:
        profile = str(self.folder / "fake.toml")
        return ProfileRecipe(ProfileChoice(profile=profile, sandbox="weak", offline=True))

    @contextmanager
    def pool(self, recipe: Recipe | None = None, actors: int = 2) -> Iterator[WorkerPool]:
        work = EvaluationWork(recipe or self.recipe(), self.evaluation, IN_FLIGHT)
        settings = ActorSettings(work, str(REPOSITORY), 1, False)
        pool = WorkerPool(settings, Share(1.0, 0.0), actors, manifest_differences)
        try:
            yield pool
        finally:
            pool.kill()

    def manifest(self, pool: WorkerPool) -> Manifest:
        first = Manifest.from_json(pool.facts())
        manifest = run_manifest(first, self.evaluation, self.evaluation.samples(), {})
        pool.expect(manifest.to_json())
        return manifest

    def on_ray(self, name: str, actors: int = 2) -> dict[str, Any]:
        with self.pool(actors=actors) as pool:
            return self._report(name, RayEngine(pool, IN_FLIGHT), self.manifest(pool))

    def on_threads(self, name: str) -> dict[str, Any]:
        reasoner, document = self.recipe()()
        samples = self.evaluation.samples()
        with reasoner:
            manifest = manifest_of(self.evaluation, samples, reasoner, document, {})
            judge = metric(self.evaluation.metric)
            answering = SampleRunner.with_cache(reasoner, judge, self.evaluation.options, 8)
            return self._report(name, LocalEngine(answering, Bounds(IN_FLIGHT)), manifest)

    def _report(self, name: str, engine: Any, manifest: Manifest) -> dict[str, Any]:
        with RunStore.resume(self.folder / name, manifest) as store:
            run(engine, items(self.evaluation.samples(), self.evaluation.seeds), store)
            made = report(store)
        made.pop("timing")
        return made

    def failures(self, name: str) -> dict[str, str]:
        with closing(RunStore.read(self.folder / name)) as store:
            return {row.sample_id: row.failure for row in store.rows() if row.failure}


def test_two_actors_give_the_report_of_threads_also_when_one_is_killed(tmp_path: Path) -> None:
    bench = Bench.of(tmp_path, 48)
    expected = bench.on_threads("threads")
    assert expected["n"] == 48 and expected["complete"]
    assert bench.on_ray("ray") == expected
    bench.dies("once", 13)
    assert bench.on_ray("killed") == expected
    assert not list((tmp_path / "flags").iterdir())


def test_samples_that_kill_their_actor_fail_alone(tmp_path: Path) -> None:
    bench = Bench.of(tmp_path, 24)
    deadly = (0, 1, 2)
    for question in deadly:
        bench.dies("always", question)
    found = bench.on_ray("run", actors=1)
    assert found["n"] == 24
    assert bench.failures("run") == {f"q{question}": "crash" for question in deadly}


def test_a_stopped_run_ends_its_actors_and_threads_go_on_with_it(tmp_path: Path) -> None:
    bench = Bench.of(tmp_path, 48)
    stop = threading.Event()
    with bench.pool() as pool:
        manifest = bench.manifest(pool)
        with RunStore.create(tmp_path / "run", manifest) as store:
            todo = items(bench.evaluation.samples(), (0,))
            for done in RayEngine(pool, IN_FLIGHT).run(todo, stop):
                store.add(done.position, done.row, done.trace)
                stop.set()
            assert 0 < len(store.done()) < 48
        assert pool.workers == []
    assert bench.on_threads("run") == bench.on_threads("whole")


def test_actors_go_on_with_what_threads_began(tmp_path: Path) -> None:
    bench = Bench.of(tmp_path, 12)
    expected = bench.on_threads("run")
    with closing(RunStore.read(tmp_path / "run")) as store:
        kept = list(store.rows())
        manifest = store.manifest
    with RunStore.create(tmp_path / "half", manifest) as store:
        for position, row in enumerate(kept[:5]):
            store.add(position, row)
    assert bench.on_ray("half") == expected


def test_an_actor_that_cannot_begin_says_why_in_one_line(tmp_path: Path) -> None:
    bench = Bench.of(tmp_path, 4)
    with (
        bench.pool(BrokenRecipe(deadly=False)) as pool,
        pytest.raises(UsageError, match=r"an actor on \S+ cannot begin: fake.toml: line 3") as told,
    ):
        pool.facts()
    assert "\n" not in str(told.value)


def test_actors_that_die_at_the_start_end_the_run(tmp_path: Path) -> None:
    bench = Bench.of(tmp_path, 4)
    with (
        bench.pool(BrokenRecipe(deadly=True), actors=1) as pool,
        pytest.raises(ModelError, match="all actors died over and over") as told,
    ):
        pool.facts()
    assert "\n" not in str(told.value)


def test_actors_for_which_there_is_no_room_are_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_LATE_S", 0.0)
    said: list[str] = []
    settings = ActorSettings(BrokenRecipe(deadly=True), str(REPOSITORY), 1, False)
    pool = WorkerPool(settings, Share(1000.0, 0.5), 1, manifest_differences, said.append)
    for _ in range(3):
        assert list(pool.reports(0.1)) == []
    pool.kill()
    (line,) = said
    assert line.endswith("each takes 1000 processors and 0.5 GPUs, and 2 and 0 are free")


def test_an_actor_that_sees_other_samples_is_refused(tmp_path: Path) -> None:
    bench = Bench.of(tmp_path, 8)
    other = replace(bench.evaluation, limit=5)
    with bench.pool(actors=1) as pool:
        manifest = run_manifest(Manifest.from_json(pool.facts()), other, other.samples(), {})
        with pytest.raises(UsageError, match="another configuration.*set limit.*set sha256"):
            pool.expect(manifest.to_json())


def test_the_command_loses_an_actor_behind_a_proxy_that_leads_nowhere(tmp_path: Path) -> None:
    Bench.of(tmp_path, 8).dies("once", 3)
    nowhere = "http://127.0.0.1:9"
    line = [
        sys.executable, "-m", "viper", "eval", str(tmp_path / "questions.csv"), "--engine", "ray",
        "--profile", str(tmp_path / "fake.toml"), "--sandbox", "weak", "--cpus-per-actor", "1",
        "--out", str(tmp_path / "run"), "--resume", "--json", "--no-html",
    ]  # fmt: skip
    proxies = {"http_proxy": nowhere, "https_proxy": nowhere, "all_proxy": nowhere}
    environment = {**os.environ, **proxies, "TMPDIR": str(tmp_path)}
    environment = {name: value for name, value in environment.items() if name != "RAY_ADDRESS"}
    for expected in ("warning: an actor died (on ", "8 of 8 are there already"):
        ended = subprocess.run(
            line, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
        assert expected in ended.stderr
        assert "ray" not in ended.stderr.replace(str(tmp_path), "").lower()
        assert json.loads(ended.stdout)["n"] == 8
    execution = json.loads(ended.stdout)["timing"]["execution"]
    assert (execution["engine"], execution["actors"]) == ("ray", 2)
    assert execution["cpus_per_actor"] == 1.0
