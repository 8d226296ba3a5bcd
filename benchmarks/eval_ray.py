"""Threads of one process against two Ray actors on two cores, and with an actor killed midway.

    python benchmarks/eval_ray.py [--limit 120] [--workers 8] [--actors 2] [--seed 0]

The embedded profile answers the same samples three times through ``viper eval``. Prints samples
a second once models are loaded, and whole time. Exit status 1 if a report differs outside its
``timing``, a sample is lost, or the killed actor was not missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RATE = re.compile(r"^(\d+)/(\d+) .* ([\d.]+)/s", re.MULTILINE)


@dataclass(frozen=True)
class Timed:
    """A finished run: its report, samples a second after loading, seconds in all."""

    report: dict[str, Any]
    rate: float
    seconds: float


def evaluated(out: Path, arguments: list[str]) -> Timed:
    """``viper eval world`` with these arguments."""
    started = time.perf_counter()
    line = [sys.executable, "-m", "viper", "eval", "world", "--no-html", "--json"]
    ended = subprocess.run([*line, "--out", str(out), *arguments], capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if ended.returncode:
        raise SystemExit(f"viper eval ended with {ended.returncode}: {ended.stderr}")
    rates = _RATE.findall(ended.stderr)
    return Timed(json.loads(ended.stdout), float(rates[-1][2]), seconds)


def kill_midway(out: Path, after: int, killed: list[int], over: threading.Event) -> None:
    """Kills an actor once ``after`` samples are stored."""
    while not over.wait(0.05):
        if stored(out) >= after:
            actors = [pid for pid in below(os.getpid()) if "ray::ReasonerActor" in title(pid)]
            if actors:
                os.kill(actors[0], signal.SIGKILL)
                killed.append(stored(out))
                return


def stored(out: Path) -> int:
    """Rows of the run so far."""
    if not (out / "samples.db").exists():
        return 0
    try:
        with sqlite3.connect(f"file:{out / 'samples.db'}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM samples").fetchone()[0])
    except sqlite3.OperationalError:  # its table is being made
        return 0


def title(pid: int) -> str:
    """What a process calls itself; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def below(pid: int) -> list[int]:
    """The processes that a process started, and those that these started."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *below(child)]
    return found


def shown(name: str, timed: Timed, same: bool) -> None:
    """A line of the table."""
    print(
        f"{name:<28} {timed.rate:6.2f} samples/s  {timed.seconds:6.1f} s in all  "
        f"score {timed.report['seeds']['mean']:.3f}  n {timed.report['n']}  "
        f"{'same report' if same else 'ANOTHER REPORT'}",
        flush=True,
    )


def main() -> int:
    """Runs all three and compares."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("limit", 120), ("workers", 8), ("actors", 2), ("seed", 0)):
        options.add_argument(f"--{name}", type=int, default=default)
    given = options.parse_args()
    common = [f"--{name}={getattr(given, name)}" for name in ("limit", "workers", "seed")]
    on_ray = [*common, "--engine=ray", f"--actors={given.actors}"]
    print(f"{given.limit} samples, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        alone = evaluated(Path(folder, "threads"), common)
        expected = {key: value for key, value in alone.report.items() if key != "timing"}

        def same(timed: Timed) -> bool:
            found = {key: value for key, value in timed.report.items() if key != "timing"}
            return found == expected

        shown("threads of one process", alone, True)
        spread = evaluated(Path(folder, "ray"), on_ray)
        shown(f"{given.actors} Ray actors", spread, same(spread))
        killed, over, out = list[int](), threading.Event(), Path(folder, "killed")
        killer = threading.Thread(target=kill_midway, args=(out, given.limit // 3, killed, over))
        killer.start()
        bereft = evaluated(out, on_ray)
        over.set()
        killer.join()
        shown("one actor killed midway", bereft, same(bereft))
    at = f"after {killed[0]} samples" if killed else "NEVER"
    print(f"an actor was killed {at}; load {os.getloadavg()[0]:.1f}")
    return 0 if killed and same(spread) and same(bereft) and expected["complete"] else 1


if __name__ == "__main__":
    sys.exit(main())
