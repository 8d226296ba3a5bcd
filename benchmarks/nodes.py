"""`viper apply` and `viper fit` with `--engine ray`: two nodes against one, with models of 50 ms.

    python -m benchmarks.nodes [--pictures 600]

Each node is one of Ray's own on this machine, with one processor and one actor. The models of the
fake profiles sleep for 50 ms a batch, as one on a GPU may, so that nodes do not compete for
processors. Prints rows a second from the first tenth of the pictures on, and the ratio; then the
same on two nodes of which one is lost in the middle. For a fit, rows are runs of candidates, of
which there are several a picture. Exit status 1 if a row is lost, doubled or differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.evaluate.fake_backends import PROFILE, a_set
from tests.jobs import job_backends as shelf

PROGRAM = """def execute_command(image, question):
    return ImagePatch(image).simple_query(question)
"""


class SlowLamps(shelf.Lamps):
    def encode(self, images: Sequence[Any]) -> list[Any]:
        time.sleep(0.05)
        return super().encode(images)

    def detect(self, encoding: Any, phrases: Sequence[str]) -> Any:
        time.sleep(0.05)
        return super().detect(encoding, phrases)


@dataclass(frozen=True)
class Case:
    """A command whose output ``--out NAME`` has a row of ``table`` for each thing done."""

    name: str
    line: list[str]
    suffix: str
    table: str

    def rows(self, out: Path) -> list[str]:
        paths = [out] if not self.table else list(out.glob(self.table))
        lines = paths[0].read_text().splitlines() if paths and paths[0].exists() else []
        return sorted(line for line in lines if line)


def to_apply(folder: Path, count: int) -> Case:
    folder.mkdir()
    a_set(folder / "set", 4 * count)
    (folder / "program.py").write_text(PROGRAM)
    backend = '"tests.evaluate.ray_backends:SlowAnswerer", model = "never"'
    text = PROFILE.format(vqa="answerer")
    old = '"tests.evaluate.fake_backends:Answerer", model = "answerer"'
    (folder / "fake.toml").write_text(text.replace(old, backend))
    given = [str(folder / name) for name in ("program.py", "set")]
    line = ["apply", *given, "--query", "what color is it?", "--workers", "2", "--profile"]
    line.append(str(folder / "fake.toml"))
    return Case("apply", line, ".csv", "")


def to_fit(folder: Path, count: int) -> Case:
    answers = shelf.pictures(folder / "pictures", count)
    table, profile = shelf.table(folder / "labels.csv", answers), folder / "fake.toml"
    profile.write_text(
        shelf.PROFILE.replace("tests.jobs.job_backends:Lamps", "benchmarks.nodes:SlowLamps")
    )
    line = ["fit", str(table), "--query", shelf.QUERY, "--requests", "4", "--profile", str(profile)]
    return Case("fit", line, "", "tried-*/outcomes.jsonl")


def rate(case: Case, out: Path, count: int, nodes: int, middle: int = 0) -> float:
    """Return the rows a second; a node is lost at the row in the middle, if there is one."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        others = [cluster.add_node(num_cpus=1) for _ in range(nodes - 1)]
        cluster.wait_for_nodes()
        line = [
            sys.executable, "-m", "viper", *case.line, "--out", str(out), "--sandbox", "weak",
            "--engine", "ray", "--ray-address", cluster.address,
            "--actors", str(nodes), "--cpus-per-actor", "1",
        ]  # fmt: skip
        kept = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        with (out.parent / "said").open("w+") as said:
            running = subprocess.Popen(line, env={**kept, "PYTHONPATH": str(Path.cwd())},
                                       stdout=said, stderr=said)  # fmt: skip
            first, last = None, (0, 0.0)
            while running.poll() is None:
                done = len(case.rows(out))
                if done > last[0]:
                    last = (done, time.perf_counter())
                if first is None and done >= count // 10:
                    first = last
                if middle and others and done >= middle:
                    cluster.remove_node(others.pop(), allow_graceful=False)
                time.sleep(0.02)
            said.seek(0)
            if running.returncode or first is None:
                raise SystemExit(said.read())
        return (last[0] - first[0]) / (last[1] - first[1])
    finally:
        cluster.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pictures", type=int, default=600)
    count = parser.parse_args().pictures
    good = True
    for make in (to_apply, to_fit):
        with tempfile.TemporaryDirectory() as name:
            case = make(Path(name) / "given", count)
            outs = [Path(name) / f"{out}{case.suffix}" for out in ("one", "two", "lost")]
            one, two = (
                rate(case, out, count, nodes) for out, nodes in ((outs[0], 1), (outs[1], 2))
            )
            with_loss = rate(case, outs[2], count, 2, len(case.rows(outs[0])) // 2)
            rows = [case.rows(out) for out in outs]
        same = rows[0] == rows[1] == rows[2] and len(rows[0]) == len({*rows[0]})
        good &= same
        print(f"{case.name}: one node {one:.1f} rows/s, two {two:.1f}: {two / one:.2f} times; one "
              f"of two lost {with_loss:.1f}; {len(rows[0])} rows, the same: {same}",
              flush=True)  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
