"""How long the first and the second answer take: ``python benchmarks/latency.py``.

Prints seconds: ``viper --help``, a cold ``viper run`` (a fresh process), and queries that
follow in one process, on a new picture and on one seen before. Least of ``--repeat``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable

from viper.profiles.wiring import EMBEDDED

MEDIA = EMBEDDED / "media"
FIRST = (str(MEDIA / "table.png"), "the ball closest to the cyan cube")
SECOND = (str(MEDIA / "cones.png"), "what color is the second cone from the left?")


def least(repeat: int, action: Callable[[], object]) -> float:
    """Seconds of the fastest of several calls."""
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def command(*arguments: str) -> Callable[[], object]:
    """A fresh ``viper`` process with these arguments; its answer need not be found."""
    line = [sys.executable, "-m", "viper", *arguments]
    return lambda: subprocess.run(line, capture_output=True, check=False)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    print(f"{'viper --help':<44} {least(repeat, command('--help')):6.2f} s")
    print(f"{'viper run, cold':<44} {least(repeat, command('run', *FIRST)):6.2f} s")

    from viper import Reasoner, load_profile

    with Reasoner(load_profile("embedded")) as reasoner:
        reasoner.run(*FIRST)
        started = time.perf_counter()
        reasoner.run(*SECOND)
        print(f"{'second query, another picture':<44} {time.perf_counter() - started:6.2f} s")
        again = least(repeat, lambda: reasoner.run(*SECOND))
        print(f"{'the same again':<44} {again:6.2f} s")


if __name__ == "__main__":
    main()
