"""Kills ``viper learn`` with SIGKILL at random moments and resumes it each time.

    python benchmarks/learn_kills.py [--set world-reserved] [--samples 30] [--kills 20] [--seed 0]

Claimed: after each kill both pools open, every prompt that they list can be read whole, and no
version that was there is gone; the resumed run ends, with a lesson of every sample, each once, and
with the same prompts as a run that nobody disturbed. Exit status 1 otherwise. Moments are drawn
so that the kills are spread over the whole of the learning: on the average each comes after what a
start takes and its share of the time that an undisturbed run takes.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from viper.evaluate.runs.learning_record import Journal
from viper.models.vision.prompt_pool import PromptPool
from viper.strategies.demonstration_pool import DemonstrationPool


@dataclass
class Learning:
    """``viper learn`` into a folder, as a process that may be killed."""

    folder: Path
    arguments: list[str]

    def start(self) -> subprocess.Popen[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "viper", "learn", *self.arguments,
                 "--out", str(self.folder / "run"), "--state", str(self.folder / "state")],
                stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
            )  # fmt: skip

    def finish(self) -> float:
        """Runs it to its end; the seconds that it took.

        Raises:
            SystemExit: it failed.
        """
        began = time.monotonic()
        if self.start().wait() != 0:
            sys.exit(f"learning failed: {(self.folder / 'log').read_text()[-2000:]}")
        return time.monotonic() - began

    def versions(self) -> tuple[int, int]:
        """The newest version of each pool; reads everything that they hold.

        Raises:
            ViperError: a pool that is not whole.
        """
        prompts = PromptPool(self.folder / "state" / "prompts")
        demonstrations = DemonstrationPool(self.folder / "state" / "demonstrations")
        try:
            for entry in prompts.store.entries():
                prompts.store.arrays(entry)
            for kept in prompts.kept():
                prompts.candidates(kept.tool, kept.concept or None, kept.evidence.model_id)
            demonstrations.items()
            return prompts.store.version, demonstrations.store.version
        finally:
            prompts.close()
            demonstrations.close()

    def prompts(self) -> dict[str, list[str]]:
        """Ids of the prompts by tool and concept."""
        pool = PromptPool(self.folder / "state" / "prompts")
        found: dict[str, list[str]] = {}
        for one in pool.kept():
            found.setdefault(f"{one.tool}: {one.concept}", []).append(one.id)
        pool.close()
        return {name: sorted(ids) for name, ids in found.items()}

    def lessons(self) -> Counter[str]:
        """How often each sample has a whole line in the journal."""
        path = Journal(self.folder / "run").path
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        found: Counter[str] = Counter()
        for line in lines:
            try:
                found[json.loads(line)["sample_id"]] += 1
            except ValueError:
                continue
        return found


def main() -> None:
    given = _arguments()
    arguments = [given.set, "--limit", str(given.samples), "--seed", str(given.seed)]
    choice = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        quiet = Learning(Path(folder, "quiet"), arguments)
        seconds = quiet.finish()
        idle = quiet.finish()  # with nothing left to learn
        prompts = sum(map(len, quiet.prompts().values()))
        print(
            f"undisturbed: {seconds:.0f} s, {prompts} prompts, {len(quiet.lessons())} lessons; "
            f"a start takes {idle:.0f} s",
            flush=True,
        )
        victim = Learning(Path(folder, "victim"), arguments)
        struck, lost = 0, 0
        before = (0, 0)
        for number in range(given.kills):
            process = victim.start()
            time.sleep(choice.uniform(0, 2 * (idle + (seconds - idle) / given.kills)))
            struck += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            now = victim.versions()
            lost += any(new < old for new, old in zip(now, before, strict=True))
            before = now
            print(f"kill {number + 1}: versions {now}, {len(victim.lessons())} lessons", flush=True)
        victim.finish()
        twice = sum(count > 1 for count in victim.lessons().values())
        same = victim.prompts() == quiet.prompts()
        whole = set(victim.lessons()) == set(quiet.lessons())
    print(f"{given.kills} kills, {struck} struck a running process; versions lost: {lost}; "
          f"samples with two lessons: {twice}; every lesson there: {whole}; "
          f"the same prompts as undisturbed: {same}")  # fmt: skip
    if lost or twice or not whole or not same or struck == 0:
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="world-reserved")
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
