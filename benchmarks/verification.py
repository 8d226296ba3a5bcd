"""How long a warm query takes, and how much longer with --verify.

    python -m benchmarks.verification [--count 30]

Asks new queries of the embedded world one after another, after a warm-up: in turns without and with
verification, each with caches of its own. Prints medians in seconds and the ratio of the sums by
family.
"""

from __future__ import annotations

import argparse
import statistics
import time

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper_lab.world.queries.meaning import FAMILIES

SEED = 31


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=30, help="queries of each family")
    options = parser.parse_args()
    profile = load_profile("embedded")
    with Reasoner(profile) as plain, Reasoner(profile) as verified:
        for family in FAMILIES:
            spec = DatasetSpec(None, f"val:{family}", SEED, options.count + 2)
            seconds: dict[bool, list[float]] = {False: [], True: []}
            for sample in data_set("world").samples(spec):
                media = sample.load()
                for verify in (False, True):
                    started = time.perf_counter()
                    (verified if verify else plain).run(
                        media, sample.text, task=sample.task, options=sample.options, verify=verify
                    )
                    seconds[verify].append(time.perf_counter() - started)
            warm = {verify: values[2:] for verify, values in seconds.items()}
            ratio = sum(warm[True]) / sum(warm[False])
            medians = {verify: statistics.median(values) for verify, values in warm.items()}
            print(
                f"{family:<10} {medians[False]:.3f} s, verified {medians[True]:.3f} s; "
                f"together {ratio:.2f} times as long  n = {len(warm[True])}"
            )


if __name__ == "__main__":
    main()
