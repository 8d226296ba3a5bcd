"""The words of the embedded world: possible attributes, reserved and held-out words.

No shipped model ever sees *reserved* concepts; they serve to measure later learning. *Held-out*
combinations are rendered in the test split only, so a test measures composition and not memory.
"""

from __future__ import annotations

SHAPES = ("cube", "ball", "cylinder", "cone", "ring")
COLOURS = ("red", "green", "blue", "yellow", "purple", "cyan", "brown", "gray")
MATERIALS = ("metal", "rubber")
SIZES = ("big", "small")

RESERVED_SHAPES = ("pyramid", "egg", "disc", "plank", "dome")
RESERVED_COLOURS = ("pink", "orange", "white", "black")
RESERVED_PATTERNS = ("striped", "spotted", "checkered")

# (colour, shape) pairs that no training or validation scene contains.
HELD_OUT_COMBINATIONS = frozenset(
    {
        ("red", "cone"),
        ("blue", "ring"),
        ("yellow", "cube"),
        ("purple", "ball"),
        ("cyan", "cylinder"),
    }
)

SPLITS = ("train", "val", "test")
