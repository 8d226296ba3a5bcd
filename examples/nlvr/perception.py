"""Perception of NLVR's pictures with OpenCV: exact boxes, colours, shapes and sizes; no training.

The detector reads a phrase as words that must all be true of an item. The matcher, which answers
questions about one crop, counts the words that a text and the items of the crop share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from viper.errors import ModelError
from viper.models.vision.roles import Detection, Floats, Pixels

BETWEEN_BOXES, BACKGROUND = 128, (211, 211, 211)
COLORS = {"yellow": (255, 255, 0), "black": (0, 0, 0), "blue": (0, 153, 255)}
SIZES = {"small": 10, "medium": 20, "big": 30}
SHAPES = ("square", "circle", "triangle")
FULL_SQUARE, FULL_CIRCLE = 0.93, 0.66
"""A square covers more of its bounding box than the first, a circle than the second."""

WORDS = (*COLORS, *SIZES, *SHAPES, "item", "box")
SIDE = 100  # of a box, in pixels


@dataclass(frozen=True)
class Thing:
    """A box or an item: pixels from the top-left corner, and the words that are true of it."""

    box: tuple[int, int, int, int]
    words: frozenset[str]


def boxes(pixels: Pixels) -> list[Thing]:
    """Return the three boxes of a picture ``uint8 [H, W, 3]``.

    Raises:
        ModelError: the picture does not show three boxes.
    """
    found = [box for box, _ in _regions(pixels.max(axis=-1) != BETWEEN_BOXES)]
    if [(x1 - x0, y1 - y0) for x0, y0, x1, y1 in found] != [(SIDE, SIDE)] * 3:
        height, width = pixels.shape[:2]
        raise ModelError(
            f"a picture of {width} x {height} pixels without the three light grey boxes of NLVR, "
            f"{SIDE} x {SIDE} pixels each; give a picture of that data set"
        )
    return [Thing(box, frozenset(("box",))) for box in found]


def items(pixels: Pixels) -> list[Thing]:
    """Return the items of a picture or a crop ``uint8 [H, W, 3]``, color by color."""
    palette = np.array([BACKGROUND, *COLORS.values()], np.int32)
    distances = ((pixels[:, :, None].astype(np.int32) - palette) ** 2).sum(-1)
    nearest = distances.argmin(-1) * (pixels.max(axis=-1) != BETWEEN_BOXES)
    found = []
    for number, color in enumerate(COLORS, start=1):
        for (left, _, right, bottom), area in _regions(nearest == number):
            side = right - left  # not the height: the tip of a triangle is a faint pixel
            fill = area / side**2
            shape = SHAPES[0 if fill > FULL_SQUARE else 1 if fill > FULL_CIRCLE else 2]
            size = min(SIZES, key=lambda name: abs(SIZES[name] - side))
            words = frozenset((color, shape, size, "item"))
            found.append(Thing((left, bottom - side, right, bottom), words))
    return found


def _regions(mask: Any) -> list[tuple[tuple[int, int, int, int], int]]:
    """Return the bounding box and the area of each 4-connected region, from left to right."""
    _, _, stats, _ = cv2.connectedComponentsWithStats(np.uint8(mask), connectivity=4)
    rows = (tuple(map(int, row)) for row in stats[1:])
    return sorted(((x, y, x + w, y + h), area) for x, y, w, h, area in rows)


class ShapeDetector:
    """Finds boxes and items by words, as ``small black square``; score 1, or nothing."""

    def __init__(self, model: str) -> None:
        self.model_id = f"nlvr-detector:{model}"

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        return [[*boxes(pixels), *items(pixels)] for pixels in images]

    def detect(self, encoding: Any, phrases: Sequence[str]) -> list[list[Detection]]:
        wanted = [frozenset(phrase.lower().split()) for phrase in phrases]
        return [
            [
                Detection(tuple(map(float, thing.box)), 1.0)
                for thing in encoding
                if words <= thing.words
            ]
            for words in wanted
        ]


class WordMatcher:
    """Compares crops with texts by the words that they share."""

    logit_scale = 100.0

    def __init__(self, model: str) -> None:
        self.model_id = f"nlvr-matcher:{model}"

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        return _vectors(
            [[word for thing in items(crop) for word in thing.words] for crop in images]
        )

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        return _vectors([text.lower().split() for text in texts])


def _vectors(words: Sequence[Sequence[str]]) -> Floats:
    counts = np.array([[each.count(word) for word in WORDS] for each in words], np.float32)
    return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-6)
