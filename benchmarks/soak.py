"""Runs thousands of programs side by side and watches what is left behind.

    python benchmarks/soak.py [--programs 20000] [--workers 4] [--hostile 0.01] [--seed 0]
    python benchmarks/soak.py --numpy-minutes 10 [--seed 0]

Every program's answer is known beforehand. Prints each sample of the parent's and the
zygote's memory, of descriptors and of processes, then the slope of each by least squares
over the second half, when all caches are warm. Exit status 1 if a result was wrong, or if
descriptors or processes are left over.

With ``--numpy-minutes``, it calls the guarded numpy with odd arguments instead; see
``tests/sandbox/numpy_programs.py``. Exit status 1 if a process crashed, or a program got hold of an
array of objects or of old memory.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.sandbox import numpy_programs
from viper.sandbox import Limits, Outcome, Prelude, Sandbox

LIMITS = Limits(time_s=2.0, memory_mb=128, calls=50)


class Tools:
    """``add`` sums, ``pixels`` hands out a small frame."""

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        return np.full((8, 8, 3), args[0] % 256, np.uint8) if name == "pixels" else sum(args)


@dataclass(frozen=True)
class Job:
    """A program with a check of its outcome."""

    kind: str
    code: str
    right: Callable[[Outcome], bool]


def ordinary(number: int) -> Job:
    """A program that answers; which one depends on the number."""

    def answers(value: object) -> Callable[[Outcome], bool]:
        return lambda outcome: outcome.ok and outcome.value == value

    def fails(kind: str) -> Callable[[Outcome], bool]:
        return lambda outcome: outcome.failure is not None and outcome.failure.kind == kind

    jobs = [
        Job("sum", f"answer = sum(range({number % 997}))", answers(sum(range(number % 997)))),
        Job("calls", f"x = {number}\nfor i in range(5):\n    x = add(x, i)\nanswer = x",
            answers(number + 10)),
        Job("pixels", f"answer = int(pixels({number}).sum())", answers(192 * (number % 256))),
        Job("text", f"answer = f'{{{number}:>9}}'.strip()", answers(str(number))),
        Job("mistake", f"a = [{number}]\nanswer = a[3]", fails("runtime")),
        Job("state", "try:\n    answer = leftover\nexcept NameError:\n    leftover = 1\n"
            "    answer = 'clean'", answers("clean")),
    ]  # fmt: skip
    return jobs[number % len(jobs)]


def hostile(number: int) -> Job:
    """A program that must be stopped."""

    def ends_as(*kinds: str) -> Callable[[Outcome], bool]:
        return lambda outcome: outcome.failure is not None and outcome.failure.kind in kinds

    jobs = [
        Job("walk", "answer = ().__class__.__base__.__subclasses__()", ends_as("forbidden")),
        Job("import", "import os\nanswer = os.getcwd()", ends_as("forbidden")),
        Job("memory", "answer = len([0] * 10**9)", ends_as("memory")),
        Job("endless", "while True:\n    pass", ends_as("timeout")),
        Job("flood", "while True:\n    print('x' * 10000)", ends_as("output")),
        Job("call flood", "while True:\n    add(1, 2)", ends_as("tool_budget")),
        Job("deep", "def f(n):\n    return f(n + 1)\nanswer = f(0)", ends_as("recursion")),
        Job("regex", "import re\nanswer = bool(re.match('(a+)+$', 'a' * 40 + 'b'))",
            ends_as("timeout")),
    ]  # fmt: skip
    return jobs[number % len(jobs)]


@dataclass
class Watch:
    """Samples of what the processes hold, against the number of programs done."""

    zygote: Callable[[], int | None]
    rows: list[tuple[int, float, float, int, int]] = field(default_factory=list)

    def sample(self, done: int) -> None:
        """Keeps and prints one row."""
        zygote = self.zygote()
        row = (
            done,
            resident_mb(os.getpid()),
            resident_mb(zygote) if zygote else 0.0,
            descriptors(),
            len(descendants(os.getpid())),
        )
        self.rows.append(row)
        print(
            f"{row[0]:>8} programs  parent {row[1]:7.1f} MB  zygote {row[2]:6.1f} MB  "
            f"{row[3]:>4} descriptors  {row[4]:>3} processes",
            flush=True,
        )

    def slopes(self) -> dict[str, float]:
        """Growth for 1,000 programs, over the second half."""
        half = np.array(self.rows[len(self.rows) // 2 :], float)
        names = ("parent MB", "zygote MB", "descriptors", "processes")
        return {
            name: 1000 * float(np.polyfit(half[:, 0], half[:, i + 1], 1)[0])
            for i, name in enumerate(names)
        }


def resident_mb(pid: int) -> float:
    """Resident memory of a process that is of its own (shared pages left out)."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE") / 2**20


def descriptors() -> int:
    """Open file descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def descendants(pid: int) -> list[int]:
    """Processes below one, zombies too."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except FileNotFoundError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def fuzz_numpy(minutes: float, seed: int) -> int:
    """Runs programs on the guarded numpy, seed by seed; returns the exit status."""
    ends: Counter[str] = Counter()
    end, faults = time.monotonic() + 60 * minutes, 0
    with Sandbox(
        limits=Limits(time_s=5), prelude=Prelude("tests.sandbox.toy_prelude")
    ) as sandbox:  # fmt: skip
        while time.monotonic() < end:
            text = numpy_programs.program(random.Random(seed))
            outcome = sandbox.run(text, arrays={"image0": numpy_programs.FRAME})
            ends[outcome.failure.kind if outcome.failure else "ok"] += 1
            if fault := numpy_programs.fault(outcome):
                faults += 1
                print(f"seed {seed}: {fault}", flush=True)
            seed += 1
    print(f"{sum(ends.values())} programs, {dict(ends)}: {faults} faults")
    return 1 if faults else 0


def main() -> int:
    """Runs the soak; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--hostile", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--numpy-minutes", type=float, default=0)
    given = parser.parse_args()
    if given.numpy_minutes:
        return fuzz_numpy(given.numpy_minutes, given.seed)
    rng = random.Random(given.seed)
    jobs = [
        hostile(rng.randrange(1 << 20)) if rng.random() < given.hostile else ordinary(number)
        for number in range(given.programs)
    ]
    before = descriptors()
    wrong: Counter[str] = Counter()
    lock, done = threading.Lock(), 0
    started = time.perf_counter()
    with Sandbox(Tools(), LIMITS, Prelude.functions("add", "pixels")) as sandbox:
        sandbox.run("answer = 1")
        watch = Watch(lambda: sandbox.zygote_pid)
        watch.sample(0)

        def run(job: Job) -> None:
            nonlocal done
            outcome = sandbox.run(job.code)
            with lock:
                done += 1
                if not job.right(outcome):
                    wrong[job.kind] += 1
                    print(f"wrong: {job.kind}: {outcome.failure or outcome.value}", flush=True)
                if done % max(1, given.programs // 40) == 0 and done < given.programs:
                    watch.sample(done)

        with ThreadPoolExecutor(given.workers) as threads:
            for _ in threads.map(run, jobs):
                pass
    seconds = time.perf_counter() - started
    time.sleep(0.5)
    left = descendants(os.getpid())
    extra = descriptors() - before
    print(f"{given.programs} programs in {seconds:.0f} s, {given.programs / seconds:.0f} a second")
    print("growth for 1,000 programs, second half:",
          ", ".join(f"{name} {value:+.3f}" for name, value in watch.slopes().items()))  # fmt: skip
    print(f"wrong results: {sum(wrong.values())} {dict(wrong) or ''}")
    print(f"left over after closing: {len(left)} processes, {extra} descriptors")
    return 1 if wrong or left or extra > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
