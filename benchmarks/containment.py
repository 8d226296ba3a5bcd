"""How soon and how completely the sandbox ends programs that use up everything.

    python benchmarks/containment.py [--rounds 3]

For each program: how it ended, the line that was named, milliseconds past the time limit,
growth of this process's memory, processes left. Then how long zygote and children outlive
a parent that was killed.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from soak import descendants, resident_mb

from viper.sandbox import Limits, Sandbox

LIMIT_S = 0.5
PROGRAMS = {
    "endless loop": "while True:\n    pass",
    "swallowed errors": "while True:\n    try:\n        1 / 0\n    except Exception:\n        pass",
    "memory bomb": "a = []\nwhile True:\n    a.append('x' * 10**6)",
    "one huge list": "answer = [0] * 10**12",
    "fork bomb": "import os\nwhile True:\n    os.fork()",
    "1 GB print": "print('x' * 10**9)",
    "endless print": "while True:\n    print('x' * 1000)",
    "regex blow-up": "import re\nanswer = re.match('(a+)+$', 'a' * 60 + 'b')",
    "10**10**10": "answer = 10**10**10",
    "big number text": "answer = str(7 ** 300000 * 3 ** 400000)",
    "sum of a range": "answer = sum(range(10**12))",
    "sorted endlessly": "import itertools\nanswer = sorted(itertools.count())",
    "deep recursion": "def f(n):\n    return f(n + 1)\nanswer = f(0)",
    "huge answer": "answer = 'x' * 10**8",
    "numpy memory": "import numpy as np\nanswer = np.ones((10**5, 10**5)).sum()",
    "numpy time": "import numpy as np\na = np.ones((600, 600))\nwhile True:\n    a = a @ a * 0 + 1",
}

ORPHAN = """
import os
from viper.sandbox import Sandbox
sandbox = Sandbox()
sandbox.run("answer = 1")
child = sandbox._pool.take()
print(sandbox.zygote_pid, child.pid, flush=True)
import time
time.sleep(60)
"""


def contain(rounds: int) -> None:
    """The table of programs."""
    print(f"{'program':<18} {'ended as':<12} {'line':>4} {'past limit':>11} {'parent':>9}  left")
    with Sandbox(limits=Limits(time_s=LIMIT_S, memory_mb=256)) as sandbox:
        sandbox.run("answer = 1")
        standing = len(descendants(os.getpid()))
        for name, code in PROGRAMS.items():
            late, grown = [], []
            for _ in range(rounds):
                before, begun = resident_mb(os.getpid()), time.perf_counter()
                outcome = sandbox.run(code)
                late.append(max(0.0, time.perf_counter() - begun - LIMIT_S))
                grown.append(resident_mb(os.getpid()) - before)
            time.sleep(0.1)
            left = max(0, len(descendants(os.getpid())) - standing)
            failure = outcome.failure
            kind = failure.kind if failure else "answered"
            line = failure.line if failure and failure.line else "-"
            print(
                f"{name:<18} {kind:<12} {line:>4} {max(late) * 1e3:>8.1f} ms "
                f"{max(grown):>6.1f} MB  {left}"
            )


def orphans(rounds: int) -> None:
    """Milliseconds from the parent's SIGKILL until zygote and child are gone."""
    seconds = []
    for _ in range(rounds):
        parent = subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
        begun = time.perf_counter()
        while any(alive(pid) for pid in pids):
            time.sleep(0.0005)
        seconds.append(time.perf_counter() - begun)
        parent.wait()
    print(
        f"parent killed: zygote and children gone after {statistics.median(seconds) * 1e3:.1f} ms "
        f"(longest {max(seconds) * 1e3:.1f})"
    )


def alive(pid: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main() -> None:
    """Prints both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    contain(rounds)
    orphans(rounds)


if __name__ == "__main__":
    main()
