"""A process that adds groups to a versioned store until it is killed; says each one that is kept.

``store_writer.py FOLDER GROUPS``: a group is one update: three entries with a file each, and a
counter that is changed in place.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from viper.storage.versioned import Change, Entry, VersionedStore

MEMBERS = 3


def add_group(change: Change, number: int) -> None:
    """One group; every array in it holds its number."""
    for member in range(MEMBERS):
        values = np.full((4, 8), number, np.float32)
        values[0, 0] = member
        file = change.store({"values": values})
        change.put(Entry(f"{number}-{member}", "groups", {"group": number}, file))
    change.put(Entry("counter", "counter", {"count": number + 1}))


def main(folder: str, groups: str) -> int:
    store = VersionedStore(Path(folder))
    print("open", flush=True)
    for _ in range(int(groups)):
        with store.update("a group") as change:
            counter = change.get("counter")
            number = 0 if counter is None else int(counter.record["count"])
            add_group(change, number)
        print(number, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
