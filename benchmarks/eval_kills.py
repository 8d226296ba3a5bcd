"""Kills an evaluation with SIGKILL at random moments and resumes it each time.

    python benchmarks/eval_kills.py [--samples 120] [--kills 20] [--seed 0] [--set world]

Claimed: whatever moments it is killed at (while it starts, while it answers, while it writes its
report), the resumed run ends with the ``report.json`` of an undisturbed one, byte for byte outside
``timing``; after each kill the store is sound and holds every row that it held before, unchanged;
in the end each sample is in it once; no process is left over. Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POLL_S = 0.02
SETTLE_S = 10.0
"""How long processes that a kill orphans get to end."""

JUDGED = (
    "sample_id", "seed", "position", "score", "failure", "message", "prediction", "target",
    "text", "details", "program", "tools", "marks",
)  # fmt: skip
"""Columns that two equal runs share; the others say what an answer took."""


@dataclass
class Evaluation:
    """``viper eval`` into a folder, as a process that may be killed."""

    folder: Path
    arguments: list[str]

    @property
    def database(self) -> Path:
        return self.folder / "samples.db"

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "viper", "eval", *self.arguments, "--resume"]
        log = self.folder.with_suffix(".log").open("ab")
        with log:
            return subprocess.Popen(
                [*command, "--out", str(self.folder)],
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def finish(self) -> None:
        """Runs it to its end.

        Raises:
            SystemExit: it failed.
        """
        if self.start().wait() != 0:
            sys.exit(f"the run failed: {self.folder.with_suffix('.log').read_text()[-2000:]}")

    def rows(
        self, columns: str = "sample_id, seed, trace"
    ) -> dict[tuple[str, int], tuple[Any, ...]]:
        """Stored rows by sample and seed; none where there is no database yet."""
        try:
            with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as opened:
                found = opened.execute(f"SELECT {columns} FROM samples").fetchall()
        except sqlite3.OperationalError:
            return {}
        return {row[:2]: row for row in found}

    def report(self) -> str:
        """The report without ``timing``."""
        found = json.loads((self.folder / "report.json").read_text("utf-8"))
        del found["timing"]
        return json.dumps(found, indent=2)


@dataclass
class Toll:
    """What the kills did. ``moments`` counts them by where they struck."""

    moments: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    unsound: int = 0


def kill_at(victim: Evaluation, where: str, more: int, wait_s: float) -> bool:
    """Starts the run and kills it; whether it was still there to be killed.

    Args:
        victim: the run.
        where: ``starting`` kills ``wait_s`` after the start, others that long after ``more``
            further rows are stored.
        more: rows.
        wait_s: seconds.
    """
    wanted = len(victim.rows("sample_id, seed")) + more
    process = victim.start()
    while where != "starting" and process.poll() is None:
        if len(victim.rows("sample_id, seed")) >= wanted:
            break
        time.sleep(POLL_S)
    time.sleep(wait_s)
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return alive and not outlived(process.pid)


def outlived(session: int) -> bool:
    """Whether any process of a dead session's group is there after a while."""
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return False
        time.sleep(POLL_S)
    return True


def killed(victim: Evaluation, samples: int, kills: int, choice: random.Random) -> Toll:
    """Kills the run so often, looking at its store after each."""
    toll = Toll()
    places = ["starting"] * (kills // 5) + ["reporting"] * (kills // 10)
    places = ["answering"] * (kills - len(places)) + places
    late = places.count("reporting")
    order = places[: len(places) - late]
    choice.shuffle(order)
    before: dict[tuple[str, int], tuple[Any, ...]] = {}
    for turn, where in enumerate([*order, *["reporting"] * late]):
        missing = samples - len(before)
        share = max(1, missing // (kills - turn + 1))
        more = missing if where == "reporting" else choice.randint(0, share)
        longest = {"starting": 6.0, "answering": 0.3, "reporting": 0.4}[where]
        if not kill_at(victim, where, more, choice.uniform(0, longest)):
            where = "too late"
        toll.moments[where] = toll.moments.get(where, 0) + 1
        after = victim.rows()
        toll.lost += sum(after.get(key) != row for key, row in before.items())
        toll.unsound += not sound(victim.database)
        print(f"kill {turn + 1}: {where}, {len(after)} of {samples} stored", flush=True)
        before = after
    return toll


def sound(database: Path) -> bool:
    """Whether SQLite finds no fault in a database, where there is one."""
    if not database.exists():
        return True
    with closing(sqlite3.connect(database)) as opened:
        return bool(opened.execute("PRAGMA integrity_check").fetchone()[0] == "ok")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=120)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", default="world")
    given, more = parser.parse_known_args()
    arguments = [given.set, "--limit", str(given.samples), *more]
    with tempfile.TemporaryDirectory() as scratch:
        calm = Evaluation(Path(scratch) / "undisturbed", arguments)
        victim = Evaluation(Path(scratch) / "killed", arguments)
        calm.finish()
        total = len(calm.rows("sample_id, seed"))
        toll = killed(victim, total, given.kills, random.Random(given.seed))
        victim.finish()
        columns = ", ".join(JUDGED)
        expected, found = calm.rows(columns), victim.rows(columns)
        places = sorted(row[2] for row in found.values())
        checks = {
            "rows lost or done again": toll.lost,
            "kills after which the store was unsound": toll.unsound,
            "kills that came too late or left processes over": toll.moments.get("too late", 0),
            "samples missing or twice": abs(total - len(found)) + (places != list(range(total))),
            "rows judged otherwise": sum(found.get(key) != row for key, row in expected.items()),
            "reports that differ outside timing": int(calm.report() != victim.report()),
        }
    print(f"{total} samples, {given.kills} kills: {toll.moments}")
    for name, count in checks.items():
        print(f"{name}: {count}")
    return 1 if any(checks.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
