"""A process that writes a run until it is ended; says each row that it was told is stored.

``store_writer.py FOLDER ROWS [BYTES]``: with BYTES, no file of this process may grow past that.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from run_samples import a_manifest, a_row, a_trace

from viper.errors import StoreError
from viper.evaluate.runs.store import RunStore


def main(folder: str, rows: str, most_bytes: str = "") -> int:
    if most_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(most_bytes), int(most_bytes)))
    try:
        with RunStore.resume(Path(folder), a_manifest()) as store:
            done = store.done()
            print("open", flush=True)
            for number in range(int(rows)):
                row = a_row(number, program="x = 1\n" * 500)
                if (row.sample_id, row.seed) not in done:
                    store.add(number, row, a_trace(row))
                    print(row.sample_id, flush=True)
    except StoreError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
