"""What threads cost on a busy machine: ``python -m benchmarks.threads``.

Times three warm queries of the embedded profile in fresh processes, beside as many busy loops as
there are cores, and on an idle machine: as shipped, with one thread, and with threads that spin (as
libraries come). The ways alternate. Prints medians in seconds with their spread, and how many times
as long as one thread each takes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from viper.threads import COUNT, PASSIVE, available_cores

WAYS = {
    "as shipped": {},
    "one thread": {COUNT: "1"},
    "threads that spin": {COUNT: str(available_cores()), "OMP_WAIT_POLICY": "ACTIVE"},
    "threads that sleep": {COUNT: str(available_cores())},
}

QUERIES = """
import time
from viper.threads import wait_passively
wait_passively()
from viper import Reasoner, load_profile
from viper.embedded import EMBEDDED

def picture(name):
    return str(EMBEDDED / "media" / name)

queries = [
    (picture("table.png"), "the ball closest to the cyan cube"),
    (picture("cones.png"), "what color is the second cone from the left?"),
    (picture("table.png"), "how many metal things are there?"),
]
with Reasoner(load_profile("embedded")) as reasoner:
    for media, query in queries:
        reasoner.run(media, query)
    started = time.perf_counter()
    for media, query in [(media, query + " ") for media, query in queries]:
        reasoner.run(media, query)
    print(time.perf_counter() - started)
"""


def seconds_of(way: dict[str, str]) -> float:
    """Return the seconds that the queries take in a fresh process with these variables."""
    known = {COUNT, "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VIPER_THREADS", *PASSIVE}
    environment = {name: value for name, value in os.environ.items() if name not in known}
    process = subprocess.run(
        [sys.executable, "-c", QUERIES], env=environment | way, stdout=subprocess.PIPE, check=True
    )
    return float(process.stdout)


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep this many cores busy."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    for loops in (0, available_cores()):
        times: dict[str, list[float]] = {way: [] for way in options.ways}
        with busy(loops):
            for _ in range(options.repeat):
                for way, seconds in times.items():
                    seconds.append(seconds_of(WAYS[way]))
        print(f"beside {loops} busy loops:")
        least = statistics.median(times.get("one thread", [float("nan")]))
        for way, seconds in times.items():
            median, spread = statistics.median(seconds), f"{min(seconds):.2f} to {max(seconds):.2f}"
            print(f"  {way:<20} {median:6.2f} s  ({spread})  {median / least:5.2f} x one thread")


if __name__ == "__main__":
    main()
