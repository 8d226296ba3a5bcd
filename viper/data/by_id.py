"""Samples of a set by their ids."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from viper.data.registry import data_set
from viper.data.sample import DataSet, Sample, Where

_DRAWN_ID = re.compile(r"(?:[a-z]+-)?([a-z]+)-(-?\d+)-([a-z]+)-(\d+)")
"""``SPLIT-SEED-FAMILY-NUMBER`` of a set that draws its samples, see :mod:`viper.data.world` and
:mod:`viper.data.world_tasks`."""

_FARTHEST = 20_000
"""Numbers beyond it are taken for none: all before them would have to be drawn."""


def samples_by_id(name: str, where: Where, ids: Iterable[str]) -> dict[str, Sample]:
    """The samples with these ids, in the order of the ids; ids that the set lacks are absent.

    The embedded world draws its samples, and an id says which; of ``where`` only a split matters
    there, where one is given.

    Raises:
        UnknownNameError: no such set or split.
        DataError: files are missing or broken.
    """
    from viper.data.world import World
    from viper.data.world_tasks import WorldTask

    found, asked = data_set(name), list(dict.fromkeys(ids))
    if isinstance(found, World | WorldTask):
        known = _drawn(found, where.split, asked)
    else:
        samples = found.samples(replace(where, limit=None))
        known = {sample.sample_id: sample for sample in samples}
    return {one: known[one] for one in asked if one in known}


def _drawn(found: DataSet, split: str | None, ids: Iterable[str]) -> dict[str, Sample]:
    """Draws as many samples of each split, seed and family as the ids reach up to."""
    reach: dict[tuple[str, int], int] = {}
    for one in ids:
        match = _DRAWN_ID.fullmatch(one)
        if match is None or len(match[4]) > len(str(_FARTHEST)) or int(match[4]) > _FARTHEST:
            continue
        part = f"{match[1]}:{match[3]}"
        if part not in found.splits or split not in (None, match[1], part):
            continue
        key = (part, int(match[2]))
        reach[key] = max(reach.get(key, 0), int(match[4]) + 1)
    return {
        sample.sample_id: sample
        for (part, seed), count in reach.items()
        for sample in found.samples(Where(None, part, seed, count))
    }
