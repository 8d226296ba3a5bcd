"""English words that exclude each other, for where a profile declares no families of its own."""

from __future__ import annotations

from collections.abc import Sequence

COLORS = (
    "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white",
    "gray",
)  # fmt: skip

COMMON_FAMILIES: tuple[tuple[str, ...], ...] = (
    COLORS,
    ("big", "small"),
    ("large", "little"),
    ("wooden", "metal", "plastic", "glass"),
    ("open", "closed"),
    ("old", "young"),
)

_OPPOSITES = (
    ("left", "right"),
    ("leftmost", "rightmost"),
    ("above", "below"),
    ("over", "under"),
    ("in front of", "behind"),
    ("front", "back"),
    ("top", "bottom"),
    ("topmost", "bottommost"),
    ("highest", "lowest"),
    ("higher", "lower"),
    ("before", "after"),
    ("first", "last"),
    ("nearest", "farthest"),
    ("closest", "farthest"),
    ("nearer", "farther"),
    ("closer", "farther"),
    ("largest", "smallest"),
    ("biggest", "smallest"),
    ("larger", "smaller"),
    ("bigger", "smaller"),
    ("tallest", "shortest"),
    ("widest", "narrowest"),
    ("most", "fewest"),
    ("more", "fewer"),
)


def _both_ways(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one, other in pairs:
        found.setdefault(one, other)
        found.setdefault(other, one)
    return found


OPPOSITES = _both_ways(_OPPOSITES)
"""Words of place, order and extent, each with its opposite."""
