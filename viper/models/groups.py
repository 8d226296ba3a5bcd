"""Which items may share a forward pass without padding."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def equal_groups(keys: Sequence[Hashable], at_most: int) -> list[list[int]]:
    """Indexes of equal keys together, ``at_most`` of them in a group; each index once.

    Padding would let an item's neighbours change what a model says about it.
    """
    by_key: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        by_key.setdefault(key, []).append(index)
    return [
        group[start : start + at_most]
        for group in by_key.values()
        for start in range(0, len(group), at_most)
    ]
