"""Assignment of scenes to splits, and the contents of each split.

A scene is a pure function of its seed, and the splits own disjoint seed ranges, so no scene of one
split can occur in another.
"""

from __future__ import annotations

from viper.errors import UnknownNameError, UsageError
from viper_lab.world.vocabulary import COLOURS, HELD_OUT_COMBINATIONS, SHAPES, SPLITS

# Length of the seed range that each split owns.
SCENES_PER_SPLIT = 10**9


def check_split(split: str) -> None:
    """Raise for an unknown split.

    Raises:
        UnknownNameError: ``split`` is not one of ``SPLITS``.
    """
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)


def scene_seed(split: str, index: int) -> int:
    """Return the seed of scene ``index`` of a split; no two (split, index) pairs share one.

    Raises:
        UnknownNameError: ``split`` is not one of ``SPLITS``.
        UsageError: ``index`` is outside ``[0, SCENES_PER_SPLIT)``.
    """
    check_split(split)
    if not 0 <= index < SCENES_PER_SPLIT:
        raise UsageError(f"scene index {index} is outside [0, {SCENES_PER_SPLIT}); choose another")
    return SPLITS.index(split) * SCENES_PER_SPLIT + index


def split_of(seed: int) -> str:
    """Return the split that owns a seed.

    Raises:
        UsageError: no split owns it.
    """
    which = seed // SCENES_PER_SPLIT
    if not 0 <= which < len(SPLITS):
        raise UsageError(f"seed {seed} belongs to no split; make one with scene_seed(split, index)")
    return SPLITS[which]


def scene_index(seed: int) -> int:
    """Return the index within its split of the scene with that seed; see :func:`split_of`."""
    return seed % SCENES_PER_SPLIT


def combinations(split: str) -> tuple[tuple[str, str], ...]:
    """Return the (colour, shape) pairs that scenes of a split may hold, in a fixed order.

    Train and validation leave out ``HELD_OUT_COMBINATIONS``; test has them all.

    Raises:
        UnknownNameError: ``split`` is not one of ``SPLITS``.
    """
    check_split(split)
    pairs = tuple((colour, shape) for colour in COLOURS for shape in SHAPES)
    if split == "test":
        return pairs
    return tuple(pair for pair in pairs if pair not in HELD_OUT_COMBINATIONS)
