"""How long answers take, the first and the slowest ones: ``python -m benchmarks.latency``.

Prints medians in seconds over ``--repeat`` fresh processes, which alternate: the import of torch,
transformers and the classes that a run uses, by itself, as Python does it and as viper does it; a
cold ``viper run``; ``--show-prompt`` and ``--help``, which import neither. Then the queries that
follow the first in one process.

``--only tail`` prints how long people's everyday questions take in a warm process, pictures and
clips mixed: the median, and the times that 5 % and 1 % of them exceed, also as multiples of the
median; beside nothing, then beside two busy loops. The processor's seconds are those of this
process, which other work changes less.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.everyday import agrees, people
from benchmarks.threads import busy
from viper.embedded import MEDIA
from viper.threads import wait_passively

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


def beyond(values: list[float], share: float) -> float:
    """Return the value that this share of all exceeds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round((1 - share) * len(ordered)))]


def tail(count: int, beside: list[int]) -> None:
    """Prints how long the slowest of the everyday questions take."""
    from viper import Reasoner, load_profile

    questions = random.Random(0).sample(list(people("people")), count)  # noqa: S311
    for loops in beside:
        wall: list[float] = []
        processor: list[float] = []
        right = 0
        with Reasoner(load_profile("embedded")) as reasoner, busy(loops):
            first = {asked.media: asked for asked in people("development")}
            for asked in first.values():  # loads the models and reads both beginnings of prompts
                reasoner.run(asked.load(), asked.question, options=asked.options)
            for asked in questions:
                media, begun, used = asked.load(), time.perf_counter(), time.process_time()
                result = reasoner.run(media, asked.question, options=asked.options)
                wall.append(time.perf_counter() - begun)
                processor.append(time.process_time() - used)
                right += agrees(result.answer, asked)
        print(f"{count} everyday questions beside {loops} busy loops, {right} right")
        for name, seconds in (("wall", wall), ("processor", processor)):
            p50, p95, p99 = (beyond(seconds, share) for share in (0.5, 0.05, 0.01))
            print(
                f"  {name:<10} p50 {p50:.2f} s, p95 {p95:.2f} s ({p95 / p50:.1f} times), "
                f"p99 {p99:.2f} s ({p99 / p50:.1f} times), longest {max(seconds):.2f} s"
            )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--loops", type=int, nargs="+", default=[0, 2], help="of the tail")
    parser.add_argument("--only", choices=("starts", "tail"), help="one of both parts")
    options = parser.parse_args()
    if options.only != "tail":
        starts(options.repeat)
    if options.only != "starts":
        tail(options.questions, options.loops)


def starts(repeat: int) -> None:
    """Prints how long the first answers take."""
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
    wait_passively()
    main()
