"""Measure scripted episodes of `viper.env` per second.

    python -m benchmarks.env_throughput [--processes 2] [--tasks 100] [--seconds 10]

Each process draws tasks of `world-everyday` and plays them with their canonical program, again and
again: reset, one action, reward. Tools answer from tables of the scenes' truth, so no model runs.
Prints episodes per second of all processes together, and of parts of an episode the milliseconds.

Claimed: at least 90 episodes per second on two cores (one virtual machine has given 94 to 164),
each answered rightly. Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from viper.env.episode import Episode, Rules
from viper.env.tasks import Tasks
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper_lab.world.everyday.programs import program_of

CLAIMED = 90


def play(seed: int, count: int, seconds: float) -> tuple[int, float, Counter[float], list[float]]:
    """Return the number of episodes, the seconds, scores, and medians of parts in milliseconds."""
    started = time.perf_counter()
    tasks = [Tasks("world-everyday", split="train", seed=seed)[number] for number in range(count)]
    drawing = (time.perf_counter() - started) / count
    programs = [program_of(task.sample.load.ask) for task in tasks]  # type: ignore[attr-defined]
    rewards: Counter[float] = Counter()
    parts: list[list[float]] = [[], [], []]
    with Reasoner(load_profile("embedded"), preload=False) as reasoner:
        rules = Rules(exact=True)
        for task in tasks:  # renders and keeps the scenes
            Episode(task, reasoner, rules).reset()
        begun, played = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            episode = Episode(tasks[played % count], reasoner, rules)
            marks = [time.perf_counter()]
            episode.reset()
            marks.append(time.perf_counter())
            episode.act(programs[played % count])
            marks.append(time.perf_counter())
            rewards[episode.reward().parts["answer"]] += 1
            episode.close()
            marks.append(time.perf_counter())
            for part, before, after in zip(parts, marks, marks[1:], strict=False):
                part.append(after - before)
            played += 1
        took = time.perf_counter() - begun
    return played, took, rewards, [1e3 * drawing, *(1e3 * median(part) for part in parts)]


def main() -> int:
    """Run the benchmark and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=100, help="tasks of each process")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    count = options.processes
    with ProcessPoolExecutor(count) as pool:
        results = list(
            pool.map(play, range(count), [options.tasks] * count, [options.seconds] * count)
        )
    rate = sum(played / took for played, took, _, _ in results)
    rewards = sum((each[2] for each in results), Counter[float]())
    draw, reset, act, end = results[0][3]
    print(f"{rate:.0f} episodes per second in {count} processes, n = {rewards.total()}")
    print(f"reset {reset:.2f} ms, one action {act:.2f} ms, reward and close {end:.2f} ms "
          f"(medians); drawing a task {draw:.1f} ms")  # fmt: skip
    print(f"right: {rewards[1.0]} of {rewards.total()}")
    return 0 if rate >= CLAIMED and rewards[1.0] == rewards.total() else 1


if __name__ == "__main__":
    sys.exit(main())
