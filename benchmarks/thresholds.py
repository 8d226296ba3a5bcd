"""Calibrates the detector's threshold: right programs with the shipped models' perception.

    python benchmarks/thresholds.py [--expressions 450] [--seed 100]

Canonical programs of referring expressions of the validation split (the sets with conventions, a
third each) run with the threshold kept at each of some values, then with self-tuning from each
of some starts. Prints the share that is right, failures by kind, and how many answers each start
changes against the best fixed value. No language model is asked, so every difference is the
threshold's. About five minutes on two cores.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper.strategies.base import Components
from viper.tools.settings import ThresholdSchedule
from viper_lab.datasets.world import EDITIONS, world_media
from viper_lab.scores.world import is_right
from viper_lab.world.queries.conventions import conventions_of
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.sample import WorldSample

NAME = "detector.threshold"
FIXED = (0.08, 0.14, 0.20, 0.23, 0.26, 0.30, 0.35, 0.41, 0.50)
TUNED = ((0.26, 0.06), (0.30, 0.08), (0.33, 0.08), (0.36, 0.10), (0.41, 0.11), (0.50, 0.10))
"""Starts and steps."""

FLOOR = 0.08
AT_ONCE = 8


@dataclass(frozen=True)
class Answers:
    """What one setting came to, sample by sample."""

    right: Sequence[bool]
    failures: Counter[str]

    @property
    def share(self) -> float:
        return sum(self.right) / len(self.right)


def expressions(count: int, seed: int) -> list[WorldSample]:
    """The same number from each set."""
    each = count // len(EDITIONS)
    return [
        sample
        for name, number in EDITIONS.items()
        for sample in generate(
            "referring",
            "val",
            seed + number,
            each,
            conventions=conventions_of(number),
            edition=name,
        )
    ]


def answers(components: Components, samples: Sequence[WorldSample], tune: bool) -> Answers:
    """Runs every sample's canonical program."""
    settings = replace(components.settings, self_tune=tune)
    reasoner = Reasoner(replace(components, settings=settings), preload=False)

    def one(sample: WorldSample) -> tuple[bool, str | None]:
        program = gold_program(sample.meaning, "abstract", sample.task)
        found = reasoner.execute(program, world_media(sample)(), sample.text, task=sample.task)
        return is_right(sample, found.answer), found.failure and found.failure.kind

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(one, samples))
    return Answers([right for right, _ in found], Counter(kind for _, kind in found if kind))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--expressions", type=int, default=450)
    parser.add_argument("--seed", type=int, default=100)
    given = parser.parse_args()
    samples = expressions(given.expressions, given.seed)
    components = load_profile("embedded").without_examples().components()
    kept = {}
    for value in FIXED:
        kept[value] = answers(components.with_thresholds({NAME: value}), samples, tune=False)
        print(
            f"fixed {value:.2f}  {kept[value].share:.3f}  {dict(kept[value].failures)}", flush=True
        )
    best = max(kept, key=lambda value: kept[value].share)
    print(f"best fixed value {best:.2f}")
    toolbox = components.toolbox
    for start, step in TUNED:
        tried = {**toolbox.settings.sensitivities, NAME: ThresholdSchedule(start, step, FLOOR)}
        other = toolbox.with_settings(replace(toolbox.settings, sensitivities=tried))
        found = answers(replace(components, toolbox=other), samples, tune=True)
        pairs = list(zip(kept[best].right, found.right, strict=True))
        won, lost = pairs.count((False, True)), pairs.count((True, False))
        print(f"from {start:.2f} by {step:.2f}  {found.share:.3f}  {dict(found.failures)}  "
              f"+{won} -{lost} against fixed {best:.2f}", flush=True)  # fmt: skip
    components.close()


if __name__ == "__main__":
    main()
