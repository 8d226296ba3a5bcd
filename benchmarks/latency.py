"""How long the first and the second answer take: ``python benchmarks/latency.py``.

Prints medians in seconds over ``--repeat`` fresh processes, which alternate: the import of torch,
transformers and the classes that a run uses, by itself, as Python does it and as viper does it; a
cold ``viper run``; ``--show-prompt`` and ``--help``, which import neither. Then the queries that
follow the first in one process.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from viper.embedded import MEDIA

FIRST = (str(MEDIA / "table.png"), "the ball closest to the cyan cube")
SECOND = (str(MEDIA / "cones.png"), "what color is the second cone from the left?")
CLASSES = (
    "from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, "
    "Owlv2ForObjectDetection, Owlv2Processor"
)
TRIMMED = "from viper.models.libraries import import_libraries; import_libraries()"


def seconds_of(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def process(*arguments: str) -> Callable[[], object]:
    """A fresh Python with these arguments; it must succeed."""
    line = [sys.executable, *arguments]
    return lambda: subprocess.run(line, capture_output=True, check=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7)
    repeat = parser.parse_args().repeat
    cold, imports = "viper run, cold", "imports of torch and transformers alone"
    processes = {
        imports: process("-c", f"import torch, transformers; {CLASSES}"),
        "the same as viper imports them": process("-c", f"{TRIMMED}; {CLASSES}"),
        cold: process("-m", "viper", "run", *FIRST),
        "viper run --show-prompt": process("-m", "viper", "run", *FIRST, "--show-prompt"),
        "viper --help": process("-m", "viper", "--help"),
    }
    times = {name: [seconds_of(run)] for name, run in processes.items()}  # the disk's cache fills
    for _ in range(repeat):
        for name, run in processes.items():
            times[name].append(seconds_of(run))
    medians = {name: statistics.median(seconds[1:]) for name, seconds in times.items()}
    for name, seconds in times.items():
        spread = f"{min(seconds[1:]):.2f} to {max(seconds[1:]):.2f}"
        print(f"{name:<44} {medians[name]:6.2f} s  ({spread})")
    print(f"{'the run beyond the imports':<44} {medians[cold] - medians[imports]:+6.2f} s")

    from viper import Reasoner, load_profile

    with Reasoner(load_profile("embedded")) as reasoner:
        reasoner.run(*FIRST)
        second = seconds_of(lambda: reasoner.run(*SECOND))
        print(f"{'second query, another picture':<44} {second:6.2f} s")
        again = statistics.median(
            seconds_of(lambda: reasoner.run(*SECOND)) for _ in range(max(1, repeat))
        )
        print(f"{'the same again':<44} {again:6.2f} s")


if __name__ == "__main__":
    main()
