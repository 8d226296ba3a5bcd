"""`viper apply --engine ray` on two nodes against one, with a model that takes 50 ms.

    python -m benchmarks.apply_nodes [--pictures 600]

Each node is one of Ray's own on this machine, with one processor and one actor. The model of the
fake profile sleeps for 50 ms a batch, as one on a GPU may, so that nodes do not compete for
processors. Prints pictures a second between the first tenth of the rows and the last, and the
ratio; then the same on two nodes of which one is lost in the middle. Exit status 1 if a row is lost
or differs.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.evaluate.fake_backends import PROFILE, a_set

PROGRAM = """def execute_command(image, question):
    return ImagePatch(image).simple_query(question)
"""


def rows(path: Path) -> list[list[str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [*csv.reader(file)][1:]


def applied(folder: Path, name: str, count: int, nodes: int, *, lost: bool) -> float:
    """Return the pictures a second."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        others = [cluster.add_node(num_cpus=1) for _ in range(nodes - 1)]
        cluster.wait_for_nodes()
        table = folder / name
        line = [
            sys.executable, "-m", "viper", "apply", str(folder / "program.py"), str(folder / "set"),
            "-o", str(table), "--profile", str(folder / "fake.toml"), "--sandbox", "weak",
            "--query", "what color is it?", "--workers", "2", "--engine", "ray", "--ray-address",
            cluster.address, "--actors", str(nodes), "--cpus-per-actor", "1",
        ]  # fmt: skip
        kept = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        running = subprocess.Popen(line, env={**kept, "PYTHONPATH": str(Path.cwd())},
                                   stderr=subprocess.PIPE, text=True)  # fmt: skip
        begun = (0, 0.0)
        while running.poll() is None:
            done = len(rows(table))
            if not begun[0] and done >= count // 10:
                begun = (done, time.perf_counter())
            if lost and others and done >= count // 2:
                cluster.remove_node(others.pop(), allow_graceful=False)
            if done >= count:
                break
            time.sleep(0.02)
        seconds = time.perf_counter() - begun[1]
        _, said = running.communicate()
        if running.returncode:
            raise SystemExit(said)
        return (count - begun[0]) / seconds
    finally:
        cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pictures", type=int, default=600)
    count = parser.parse_args().pictures
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        a_set(folder / "set", 4 * count)
        (folder / "program.py").write_text(PROGRAM)
        backend = '"tests.evaluate.ray_backends:SlowAnswerer", model = "never"'
        text = PROFILE.format(vqa="answerer")
        old = '"tests.evaluate.fake_backends:Answerer", model = "answerer"'
        (folder / "fake.toml").write_text(text.replace(old, backend))
        one = applied(folder, "one.csv", count, 1, lost=False)
        two = applied(folder, "two.csv", count, 2, lost=False)
        print(f"one node {one:.1f} pictures/s, two {two:.1f}: {two / one:.2f} times", flush=True)
        with_loss = applied(folder, "lost.csv", count, 2, lost=True)
        same = rows(folder / "one.csv") == rows(folder / "two.csv") == rows(folder / "lost.csv")
        print(f"one of two lost: {with_loss:.1f} pictures/s; rows the same: {same}")
        raise SystemExit(not same)


if __name__ == "__main__":
    main()
