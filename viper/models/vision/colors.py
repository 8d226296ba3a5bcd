"""Names of colors by pixels, and the matcher that judges nothing else.

`color_chances` says for each of eleven colors how probably it names an object, from the pixels of
its box. :class:`PixelMatcher` reads the color in a text and refuses every other text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from viper.errors import ToolError
from viper.models.libraries import cv2
from viper.models.vision.roles import Floats, Pixels

# The basic color terms of English (Berlin and Kay 1969).
COLORS = (
    "black", "white", "gray", "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown",
)  # fmt: skip

# Other words for the same color.
ALIASES: Mapping[str, str] = {"grey": "gray", "silver": "gray", "violet": "purple"}

# Side in pixels that a box is scaled down to: a texture becomes the color that one sees from afar.
_SIDE = 48

# Deviation of the weights around the centre of a box, as a share of its side: its corners are
# mostly background. By looking at 54 boxes of development photographs; grabCut lost the object in a
# third of them and took 20 times as long.
_SPREAD = 0.22

# A color that covers half of the middle certainly names the object, a quarter is even odds: a man in
# a red jacket has .32 of red.
_CERTAIN = 0.5

# First match of lightness (0 to 100), chroma and hue in degrees, each from and to, in CIELAB. The
# bounds are ours, chosen on the same boxes. Skin and wood are brown.
_ANY = (0.0, 999.0)
_BOUNDS = (
    ("black", (0, 14), (0, 30), _ANY),
    ("black", (0, 30), (0, 12), _ANY),
    ("gray", (30, 35), (0, 12), _ANY),
    ("gray", (30, 76), (0, 9), _ANY),
    ("white", (76, 101), (0, 9), _ANY),
    ("white", (85, 101), (0, 14), _ANY),
    ("pink", (60, 101), (0, 60), (0, 45)),
    ("pink", (60, 101), (0, 60), (345, 360)),
    ("pink", (45, 101), _ANY, (335, 360)),
    ("brown", _ANY, (0, 18), (0, 38)),
    ("brown", _ANY, (0, 18), (335, 360)),
    ("red", _ANY, _ANY, (345, 360)),
    ("red", _ANY, _ANY, (0, 38)),
    ("red", _ANY, (45, 999), (0, 48)),
    ("orange", (52, 101), (48, 999), (0, 72)),
    ("brown", (0, 60), _ANY, (0, 92)),
    ("brown", _ANY, (0, 35), (0, 92)),
    ("orange", _ANY, _ANY, (0, 72)),
    ("yellow", (45, 101), _ANY, (0, 110)),
    ("green", _ANY, _ANY, (0, 195)),
    ("blue", _ANY, _ANY, (0, 305)),
    ("blue", _ANY, (100, 999), (0, 312)),  # a pure one
    ("purple", _ANY, _ANY, _ANY),
)


def color_named(word: str) -> str | None:
    """Return the color that a word names, one of :data:`COLORS`, or None."""
    word = ALIASES.get(word.lower(), word.lower())
    return word if word in COLORS else None


def color_chances(pixels: Pixels) -> tuple[Floats, Floats]:
    """Return for each of :data:`COLORS` the probability to name an object, and its share.

    Args:
        pixels: ``uint8 [H, W, 3]`` RGB of the object's box. Its middle counts most, and a color
            that has more of the corners than of the middle counts less: it is background.

    Returns:
        Two float32 [11]; the shares of the middle add up to 1.
    """
    height, width = pixels.shape[:2]
    scale = min(1.0, _SIDE / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    small = cv2.resize(np.ascontiguousarray(pixels), size, interpolation=cv2.INTER_AREA)
    lab = cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    hue = np.degrees(np.arctan2(lab[..., 2], lab[..., 1])) % 360
    values = (lab[..., 0], np.hypot(lab[..., 1], lab[..., 2]), hue)
    tests = [
        np.logical_and.reduce(
            [(low <= value) & (value < high) for value, (low, high) in zip(values, bounds, strict=True)]
        )
        for _, *bounds in _BOUNDS
    ]
    names = np.select(tests, [COLORS.index(name) for name, *_ in _BOUNDS])
    y, x = (
        np.exp(-(((np.arange(side) + 0.5) / side - 0.5) ** 2) / (2 * _SPREAD**2))
        for side in names.shape
    )
    middle = y[:, None] * x
    shares, outside = (
        np.bincount(names.ravel(), weights.ravel(), len(COLORS)) / weights.sum()
        for weights in (middle, 1.001 - middle)
    )
    own = np.minimum(1.0, shares / np.maximum(outside, 1e-6))
    chances = np.minimum(1.0, shares * own / _CERTAIN)
    return chances.astype(np.float32), shares.astype(np.float32)


class PixelMatcher:
    """A ``LikelihoodMatcher`` of colors: a text is a color before a noun, such as ``red car``.

    Args:
        source: not used, because nothing is loaded.
    """

    model_id = "pixels"
    by_likelihood = True
    concurrent = True
    logit_scale = 1.0

    def __init__(self, source: str | None = None) -> None:
        pass

    def likelihood(self, images: Sequence[Pixels], texts: Sequence[str]) -> Floats:
        """Return the probability ``[N, M]`` that each text describes each picture.

        Raises:
            ToolError: a text begins with no color.
        """
        columns = [_color_of(text) for text in texts]
        return np.stack([color_chances(image)[0][columns] for image in images])

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        """Raise ToolError, because colors have no embeddings."""
        raise ToolError("this profile's matcher sees colors only and has no embeddings")

    encode_texts = encode_images


def _color_of(text: str) -> int:
    words = text.lower().split()
    words = words[1:] if words[:1] in (["a"], ["an"], ["the"]) else words
    color = color_named(words[0]) if words else None
    if color is None:
        raise ToolError(
            f"this profile's matcher sees colors only, not {text!r}; it knows {', '.join(COLORS)}; "
            "sizes are patch.width and patch.height"
        )
    return COLORS.index(color)
