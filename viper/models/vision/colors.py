"""Names of colors by pixels, and the matcher that judges nothing else.

`color_chances` says for each of eleven colors how probably it names an object, from the pixels of
its box; the bounds of colors stand in ``colors.toml``. :class:`PixelMatcher` reads the color in a
text and refuses every other text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.libraries import cv2
from viper.models.vision.roles import Floats, Pixels
from viper.record import read_toml

# The basic color terms of English (Berlin and Kay 1969).
COLORS = (
    "black", "white", "gray", "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown",
)  # fmt: skip

# Side in pixels that a box is scaled down to: a texture becomes the color that one sees from afar.
_SIDE = 48

# Deviation of the weights around the centre of a box, as a share of its side: its corners are
# mostly background. By looking at 54 boxes of development photographs, of which grabCut called more
# by a wrong color.
_SPREAD = 0.22

# A color that covers half of the middle certainly names the object, a quarter is even odds: a man
# in a red jacket has .32 of red.
_CERTAIN = 0.5


@cache
def _table() -> dict[str, Any]:
    return read_toml(Path(__file__).with_suffix(".toml"))[1]


def color_named(word: str) -> str | None:
    """Return the color that a word names, one of :data:`COLORS`, or None."""
    word = _table()["aliases"].get(word.lower(), word.lower())
    return word if word in COLORS else None


def color_chances(pixels: Pixels) -> tuple[Floats, Floats]:
    """Return for each of :data:`COLORS` the probability to name an object, and its share.

    Args:
        pixels: ``uint8 [H, W, 3]`` RGB of the object's box. Its middle counts most, and a color
            that has more of the corners than of the middle counts less: it is background.

    Returns:
        Two float32 [11]; the shares of the middle add up to 1.
    """
    sides = np.array(pixels.shape[1::-1])
    width, height = np.maximum(1, np.round(sides * min(1.0, _SIDE / sides.max()))).astype(int)
    small = cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=cv2.INTER_AREA)
    light, a, b = np.moveaxis(cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), 2, 0)
    chroma, hue = np.hypot(a, b), np.degrees(np.arctan2(b, a)) % 360
    names = np.full(light.shape, -1)
    for name, l0, l1, c0, c1, h0, h1 in _table()["bounds"]:
        fits = (l0 <= light) & (light < l1) & (c0 <= chroma) & (chroma < c1)
        names[fits & (h0 <= hue) & (hue < h1) & (names < 0)] = COLORS.index(name)
    down, right = (np.linspace(-0.5, 0.5, side + 2)[1:-1] / _SPREAD for side in (height, width))
    middle = np.exp(-(down[:, None] ** 2 + right**2) / 2)
    shares, outside = (
        np.bincount(names.ravel(), weights.ravel(), len(COLORS)) / weights.sum()
        for weights in (middle, 1.001 - middle)
    )
    own = np.minimum(1.0, shares / np.maximum(outside, 1e-6))
    return np.minimum(1.0, shares * own / _CERTAIN).astype(np.float32), shares.astype(np.float32)


class PixelMatcher:
    """A ``LikelihoodMatcher`` of colors: a text is a color before a noun, such as ``red car``.

    Args:
        source: not used, because nothing is loaded.
    """

    model_id, by_likelihood, colors_only, concurrent, logit_scale = "pixels", True, True, True, 1.0

    def __init__(self, source: str | None = None) -> None:
        pass

    def likelihood(self, images: Sequence[Pixels], texts: Sequence[str]) -> Floats:
        """Return the probability ``[N, M]`` that each text describes each picture.

        Raises:
            ToolError: a text begins with no color.
        """
        columns = []
        for text in texts:
            words = text.lower().removeprefix("a ").removeprefix("the ").split() or [""]
            if (color := color_named(words[0])) is None:
                raise ToolError(
                    f"this profile sees colors and sizes only, not {text!r}; colors are "
                    f"{', '.join(COLORS)}; a patch has width and height"
                )
            columns.append(COLORS.index(color))
        return np.stack([color_chances(image)[0][columns] for image in images])

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        """Raise ToolError, because colors have no embeddings."""
        raise ToolError("this profile's matcher sees colors only and has no embeddings")

    encode_texts = encode_images
