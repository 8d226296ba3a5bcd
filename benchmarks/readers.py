"""Damages valid files of every format and reads them: ``python benchmarks/readers.py``.

Each reader of a file that somebody else may have made gets ``--count`` damaged files, seed by seed.
Prints for each how many were read and refused, the longest reading, and exits with 1 if one raised
anything but an error of viper, took more than ten seconds, or the process grew beyond 1 GB.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.readers import READERS, damaged
from viper.errors import ViperError

MOST_S, MOST_KB = 10.0, 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--only", choices=READERS)
    options = parser.parse_args()
    faults = 0
    for name in [options.only] if options.only else READERS:
        file, make, read = READERS[name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            content, good, longest, worst = make(Path(folder)), 0, 0.0, ""
            for seed in range(options.count):
                path.write_bytes(damaged(content, seed))
                begun = time.perf_counter()
                try:
                    read(path)
                    good += 1
                except ViperError:
                    pass
                except Exception as error:  # noqa: BLE001 - what this looks for
                    if name != "record" or not isinstance(error, ValueError | RecursionError):
                        faults += 1
                        worst = worst or f"seed {seed}: {type(error).__name__}: {error}"[:120]
                seconds = time.perf_counter() - begun
                longest = max(longest, seconds)
                faults += seconds > MOST_S
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{name:<20} {good:6} read, {options.count - good:6} refused, longest "
              f"{longest:6.2f} s, {grown >> 10:5} MB {worst}", flush=True)  # fmt: skip
        faults += grown > MOST_KB
    print(f"{faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
