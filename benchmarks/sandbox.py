"""Times the sandbox: whole runs, the wire, and its programs against other executors.

    python benchmarks/sandbox.py [--rounds 60]

Prints milliseconds (microseconds for the wire), least and median. The least is what an idle
machine does; the median tells how busy this one is.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from viper.sandbox import Limits, Prelude, Sandbox
from viper.sandbox.child import ChildRuntime
from viper.sandbox.policy import compile_program

TYPICAL = """
def execute_command(image) -> str:
    image_patch = {"left": 0, "right": 200}
    cups = [{"name": "cup", "left": 10 * i, "size": 3 + i} for i in range(5)]
    plates = [{"name": "plate", "left": 12 * i, "size": 9 - i} for i in range(4)]
    if len(cups) == 0:
        return "none"
    cups.sort(key=lambda cup: cup["left"])
    leftmost = cups[0]
    best, best_gap = None, float("inf")
    for plate in plates:
        gap = abs(plate["left"] - leftmost["left"])
        if gap < best_gap:
            best, best_gap = plate, gap
    total = 0
    for cup in cups:
        total += cup["size"]
    names = ", ".join(sorted(set(thing["name"] for thing in cups + plates)))
    wide = [thing for thing in cups if thing["size"] > 4 and thing["left"] < image_patch["right"]]
    if best is not None and total > 10:
        return f"{names}: {best['name']} at {best['left']}, {len(wide)} wide"
    return "unsure"
answer = execute_command(None)
"""
SORT = """
boxes = [(((i * 7919) % 503), i, i + 5) for i in range(500)]
boxes.sort(key=lambda b: b[0])
answer = boxes[250][1]
"""
LOOP = """
total = 0
for y in range(200):
    for x in range(200):
        if (x + y) % 3 == 0:
            total += x * y
answer = total
"""
IOUS = """
def iou(a, b):
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    inter = w * h
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter)
boxes = [(i % 10, i // 10, i % 10 + 3, i // 10 + 3) for i in range(100)]
answer = 0.0
for i in range(100):
    for j in range(i):
        answer += iou(boxes[i], boxes[j])
"""
ROUND_TRIPS = 1000
"""Calls of one program, so that starting it does not count."""

PROGRAMS = {
    "typical, 22 lines": TYPICAL,
    "sort 500 boxes": SORT,
    "200 x 200 loop": LOOP,
    "4,950 IoUs": IOUS,
}


class Tools:
    """Sums, and one frame of pixels."""

    def __init__(self) -> None:
        self.frame = np.zeros((3, 480, 640), np.uint8)

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        return self.frame if name == "pixels" else sum(args)


def measure(action: Callable[[], Any], rounds: int, pause_s: float = 0.0) -> tuple[float, float]:
    """Least and median seconds of an action."""
    times = []
    for _ in range(rounds):
        time.sleep(pause_s)
        begun = time.perf_counter()
        action()
        times.append(time.perf_counter() - begun)
    return min(times), statistics.median(times)


def whole_runs(rounds: int) -> None:
    """From source to outcome, in a fresh warm child each time, and in the one of the last run."""
    prelude = Prelude.functions("add", "pixels")
    for keeps, words in ((False, "run"), (True, "run again")):
        with Sandbox(Tools(), prelude=prelude, keeps=keeps) as sandbox:
            sandbox.run("answer = 1")
            for name, code in {"no call": "answer = 1", "typical, 22 lines": TYPICAL}.items():
                least, median = measure(lambda code=code: sandbox.run(code), 3 * rounds)  # type: ignore[misc]
                print(f"{words}, {name:<22} {least * 1e3:8.2f} {median * 1e3:8.2f} ms, no pause")
    with Sandbox(Tools(), Limits(time_s=60, calls=100_000), prelude, keeps=False) as sandbox:
        sandbox.run("answer = 1")
        many = "def execute_command(image):\n    x = 0\n" + "    x = add(x, 1)\n" * 14
        for name, code in {
            "no call": "answer = 1",
            "1 call": "answer = add(1, 2)",
            "14 calls": many + "    return x",
        }.items():
            least, median = measure(
                lambda code=code: sandbox.run(code, entry="execute_command"),  # type: ignore[misc]
                rounds,
                pause_s=0.02,
            )
            print(f"run, {name:<22} {least * 1e3:8.2f} {median * 1e3:8.2f} ms")
        for name, call in {"small call": "add(1, 2)", "640x480 frame": "pixels()"}.items():
            code = f"for i in range({ROUND_TRIPS}):\n    {call}"
            times = [sandbox.run(code).seconds for _ in range(9)]
            least, median = (f(times) / ROUND_TRIPS * 1e6 for f in (min, statistics.median))
            print(f"round trip, {name:<15} {least:8.0f} {median:8.0f} us")


def against_others(rounds: int) -> None:
    """Compiling and running: plain ``exec``, ours, and an executor that interprets the tree."""
    child = ChildRuntime(Prelude.functions(), Limits())

    def plain(code: str) -> None:
        exec(compile(code, "p", "exec"), {})

    def guarded(code: str) -> None:
        exec(compile_program(code, "<program>").code, dict(child.namespace))

    executors: dict[str, Callable[[str], object]] = {"plain exec": plain, "guarded, here": guarded}
    interpreter = tree_interpreter()
    if interpreter is not None:
        executors["smolagents"] = interpreter
    with Sandbox(limits=Limits(time_s=60)) as sandbox:
        executors["sandbox run"] = sandbox.run
        print(f"\n{'compile and run, least ms':<27} " + "".join(f"{n:>15}" for n in executors))
        for name, code in PROGRAMS.items():
            row = [
                measure(lambda code=code, run=run: run(code), rounds, pause_s=0.01)[0]  # type: ignore[misc]
                for run in executors.values()
            ]
            print(f"{name:<27} " + "".join(f"{1e3 * seconds:>15.2f}" for seconds in row))
    if interpreter is None:
        print("(smolagents is not installed: pip install smolagents adds its column)")


def tree_interpreter() -> Callable[[str], object] | None:
    """The executor of smolagents, which walks the syntax tree; None where it is not installed."""
    try:
        from smolagents.local_python_executor import LocalPythonExecutor
    except ImportError:
        return None

    def run(code: str) -> object:
        executor = LocalPythonExecutor(additional_authorized_imports=[])
        executor.send_tools({})
        return executor(code)

    return run


def main() -> None:
    """Prints all timings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    print(f"{'':<27} {'least':>8} {'median':>8}")
    whole_runs(rounds)
    against_others(max(5, rounds // 10))


if __name__ == "__main__":
    main()
