"""``viper apply --engine ray``: the rows of threads, also when an actor or a node is lost."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.evaluate.fake_backends import PROFILE, a_set

pytest.importorskip("ray")

ROOT = Path(__file__).parents[2]
PROGRAM = """def execute_command(image, question):
    return ImagePatch(image).simple_query(question)
"""
PICTURES = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    a_set(tmp_path / "set", 4 * PICTURES)
    (tmp_path / "program.py").write_text(PROGRAM)
    backend = f'"tests.evaluate.ray_backends:SlowAnswerer", model = "{tmp_path / "deadly"}"'
    text = PROFILE.format(vqa="answerer")
    old = '"tests.evaluate.fake_backends:Answerer", model = "answerer"'
    assert old in text
    (tmp_path / "fake.toml").write_text(text.replace(old, backend))
    return tmp_path


def command(folder: Path, table: str, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "viper", "apply", str(folder / "program.py"), str(folder / "set"),
        "-o", str(folder / table), "--profile", str(folder / "fake.toml"), "--sandbox", "weak",
        "--query", "what color is it?", "--workers", "2", *more,
    ]  # fmt: skip


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return [*csv.reader(file)]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return kept | {"PYTHONPATH": str(ROOT)}


def run(line: list[str]) -> str:
    ended = subprocess.run(line, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def test_two_actors_write_the_rows_of_threads_also_when_one_dies(folder: Path) -> None:
    run(command(folder, "threads.csv"))
    (folder / "deadly").touch()
    on_ray = command(folder, "ray.csv", "--engine", "ray", "--cpus-per-actor", "1")
    said = run(on_ray)
    assert said.count("warning: an actor died (on ") == 1 and "again" in said
    assert len(rows(folder / "ray.csv")) == PICTURES + 1
    assert rows(folder / "ray.csv") == rows(folder / "threads.csv")
    before = (folder / "ray.csv").read_bytes()
    run(command(folder, "ray.csv"))  # threads find nothing left to do
    assert (folder / "ray.csv").read_bytes() == before


def test_a_lost_node_loses_no_row(folder: Path) -> None:
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        second = nodes.add_node(num_cpus=1)
        nodes.wait_for_nodes()
        address = ["--ray-address", nodes.address, "--cpus-per-actor", "1"]
        line = command(folder, "ray.csv", "--engine", "ray", *address)
        running = subprocess.Popen(
            line, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        table = folder / "ray.csv"
        while running.poll() is None and (not table.exists() or len(rows(table)) < PICTURES // 3):
            time.sleep(0.05)
        nodes.remove_node(second, allow_graceful=False)
        _, said = running.communicate(timeout=240)
        assert running.returncode == 0, said
    finally:
        nodes.shutdown()
    run(command(folder, "threads.csv"))
    assert rows(folder / "ray.csv") == rows(folder / "threads.csv")
