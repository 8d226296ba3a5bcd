"""How a detector in an ONNX file takes pictures and writes boxes: the TOML file beside it.

An ONNX file states names and shapes of arrays and nothing of their meaning. A :class:`Layout` does:
`letterboxed` makes the input array of a picture by it, and `decoded` turns the outputs into boxes
and a score for each category, by the decoder of its family (:data:`DECODERS`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from viper.errors import ModelError, UsageError
from viper.models.libraries import cv2
from viper.models.vision.boxes import MIN_SCORE
from viper.models.vision.roles import Floats, Pixels
from viper.models.vision.vocabulary import Vocabulary
from viper.record import record_from_toml

# Sides of an input in pixels. Detectors take 224 to 1,536; an array of the greatest has 50 MB.
LEAST_SIDE, MOST_SIDE = 32, 2048

# Categories and rows of an output: above LVIS (1,203), and above 25,200 rows of 640 x 640 pixels.
MOST_CATEGORIES, MOST_ROWS = 2_000, 200_000

# Cells of the three grids of YOLOX have these sides in pixels (Ge et al. 2021).
STRIDES = (8, 16, 32)


class OnnxError(ModelError, UsageError):
    """A file is no detector that this package can run, or its layout does not fit."""

    code = "onnx"
    exit_code = UsageError.exit_code


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Layout of a detector, as the keys of ``FILE.toml`` beside ``FILE.onnx``.

    A value ``p`` of a picture, 0 to 255, becomes ``(p * scale - mean) / std``.

    Attributes:
        size: height and width of the input in pixels.
        axes: order of its axes.
        colors: order of its channels.
        letterbox: place of the picture, scaled with its shape kept, in the input: top-left
            ``corner`` or ``centre``; ``none`` stretches it.
        fill: value around the picture, 0 to 255.
        mean, std: three values each, in the order of ``colors``.
        decoder: family of the outputs, one of :data:`DECODERS`.
        licence: licence of the weights, for people.
        categories: names in the order of the outputs. ``""`` is a category that is never detected.
        synonyms: category -> other words for it.
        unions: word -> categories that it comprises; ``*`` stands for all.

    Raises:
        UsageError: a value is out of range, or a word stands for no category.
    """

    __pydantic_config__ = {"extra": "forbid"}

    size: tuple[int, int]
    decoder: Literal["yolox", "yolo", "detr"]
    categories: tuple[str, ...]
    axes: Literal["NCHW", "NHWC"] = "NCHW"
    colors: Literal["RGB", "BGR"] = "RGB"
    letterbox: Literal["none", "corner", "centre"] = "none"
    fill: int = 114
    scale: float = 1.0
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    licence: str = "unknown"
    synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [name for name in self.categories if name]
        listed = {*self.synonyms, *(each for union in self.unions.values() for each in union)}
        numbers = (self.scale, *self.mean, *self.std)
        sides = all(LEAST_SIDE <= side <= MOST_SIDE for side in self.size)
        checks = {
            f"size: expected {LEAST_SIDE} to {MOST_SIDE} pixels": sides,
            "fill: expected 0 to 255": 0 <= self.fill <= 255,
            "scale, mean and std: expected finite numbers": all(map(math.isfinite, numbers)),
            "std: expected no 0": all(self.std),
            f"categories: expected 1 to {MOST_CATEGORIES}": 1 <= len(names) <= MOST_CATEGORIES,
            "categories: expected each name once": len(names) == len({*names}),
            "synonyms and unions: expected names of categories": listed <= {*names, "*"},
        }
        if wrong := [expected for expected, holds in checks.items() if not holds]:
            raise UsageError(wrong[0])

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the words for the categories."""
        return Vocabulary(self.categories, self.synonyms, self.unions)

    @classmethod
    def beside(cls, model: Path) -> Layout:
        """Read the layout of a model file.

        Raises:
            OnnxError: there is none; names the command that writes it.
            UsageError: a value is wrong; names the line.
        """
        path = model.with_suffix(".toml")
        if not path.is_file():
            raise OnnxError(f"{path}: no such file; viper setup model {model} writes it")
        return record_from_toml(cls, path)


# Where a picture lies in the input: scales (x, y), and its top-left corner (x, y) in pixels.
Frame = tuple[tuple[float, float], tuple[int, int]]


def letterboxed(layout: Layout, image: Pixels) -> tuple[Floats, Frame]:
    """Return the input float32 ``[1, ...]`` for a picture, and where the picture lies in it."""
    (height, width), (rows, columns) = image.shape[:2], layout.size
    fitted, x, y = (columns, rows), 0, 0
    scale = (columns / width, rows / height)
    if layout.letterbox != "none":
        scale = (min(scale), min(scale))  # of boxes, too, as YOLOX has it in spite of the rounding
        fitted = max(1, int(width * scale[0])), max(1, int(height * scale[1]))
    if layout.letterbox == "centre":
        x, y = (columns - fitted[0]) // 2, (rows - fitted[1]) // 2
    canvas = np.full((rows, columns, 3), layout.fill, np.uint8)
    pixels = cv2.resize(np.ascontiguousarray(image), fitted, interpolation=cv2.INTER_LINEAR)
    canvas[y : y + fitted[1], x : x + fitted[0]] = pixels
    values = canvas[..., ::-1] if layout.colors == "BGR" else canvas
    mean, std = (np.array(each, np.float32) for each in (layout.mean, layout.std))
    array: Floats = values.astype(np.float32)
    if layout.scale != 1 or mean.any() or (std != 1).any():
        array = (array * np.float32(layout.scale) - mean) / std
    array = array.transpose(2, 0, 1) if layout.axes == "NCHW" else array
    return np.ascontiguousarray(array)[None], (scale, (x, y))


def decoded(layout: Layout, outputs: Sequence[Any], model: str) -> tuple[Floats, Floats]:
    """Return boxes ``[N, 4]``, (x0, y0, x1, y1) in pixels of the input, and scores ``[N, C]``.

    Rows without a score of :data:`MIN_SCORE` are left out. Errors begin with the model's name.

    Raises:
        OnnxError: the outputs have other shapes than the decoder reads, or other values.
    """
    parts = [each[0] for each in outputs if each.ndim == 3 and max(each.shape) <= MOST_ROWS]
    result = DECODERS[layout.decoder](layout, parts)
    if result is None:
        raise OnnxError(
            f"{model}: the outputs have the shapes {shapes_of(outputs)}, which the decoder "
            f"{layout.decoder!r} does not read with {len(layout.categories)} categories; "
            "viper setup model FILE.onnx --force writes the layout anew"
        )
    boxes, scores = result
    # A number that is not finite must not seem to be an object that is not there.
    if not all(np.isfinite(each).all() for each in parts) or scores.max(initial=0) > 1.01:
        raise OnnxError(
            f"{model}: scores up to {scores.max(initial=0):.3g}; expected probabilities, and "
            "finite numbers everywhere: export the model in float32, with its last activation"
        )
    likely = scores.max(axis=1, initial=0) >= MIN_SCORE
    centre, half = boxes[likely, :2], boxes[likely, 2:] / 2
    return np.concatenate((centre - half, centre + half), axis=1), scores[likely]


def shapes_of(outputs: Sequence[Any]) -> str:
    """Return the shapes of a model's outputs, for messages."""
    return " and ".join(str(list(np.shape(each))) for each in outputs[:4]) or "none"


# A decoder takes the outputs with three axes, without the first, and returns boxes (centre x,
# centre y, width, height) in pixels of the input and scores, or None for other shapes.
Parts = tuple[Floats, Floats] | None


def _yolox(layout: Layout, outputs: Sequence[Any]) -> Parts:
    """Decode offsets in the cells of grids (Ge et al. 2021), one row ``5 + C`` for each cell."""
    cells, sides = grid_cells(layout.size)
    if not outputs or outputs[0].shape != (len(cells), 5 + len(layout.categories)):
        return None
    likely = outputs[0][:, 4] >= MIN_SCORE  # a score is at most the objectness
    rows, cells, sides = outputs[0][likely], cells[likely], sides[likely]
    sizes = np.exp(np.minimum(rows[:, 2:4], 20.0)) * sides  # larger ones would overflow
    boxes = np.concatenate(((rows[:, :2] + cells) * sides, sizes), axis=1)
    return boxes, rows[:, 4:5] * rows[:, 5:]


@lru_cache(maxsize=8)
def grid_cells(size: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return column and row ``[N, 2]``, and side in pixels ``[N, 1]``, of every cell."""
    grids = [np.indices((size[0] // side, size[1] // side)).reshape(2, -1).T for side in STRIDES]
    sides = np.repeat(np.array(STRIDES, np.float32), [len(grid) for grid in grids])[:, None]
    return np.concatenate(grids)[:, ::-1].astype(np.float32), sides


def _yolo(layout: Layout, outputs: Sequence[Any]) -> Parts:
    """Decode boxes in pixels: rows ``5 + C`` with an objectness, or columns ``4 + C`` without."""
    count = len(layout.categories)
    for rows in (each for output in outputs[:1] for each in (output, output.T)):
        if rows.shape[1] == 5 + count:
            return rows[:, :4], rows[:, 4:5] * rows[:, 5:]
        if rows.shape[1] == 4 + count:
            return rows[:, :4], rows[:, 4:]
    return None


def _detr(layout: Layout, outputs: Sequence[Any]) -> Parts:
    """Decode boxes as shares of the input and logits; one more of them is that of no object."""
    if len(outputs) != 2 or len(outputs[0]) != len(outputs[1]):
        return None
    # Three categories and none have as many logits as a box has sides, but not from 0 to 1.
    boxes, logits = sorted(outputs, key=lambda each: (each.shape[1] != 4, each.min(initial=0) < 0))
    more = logits.shape[1] - len(layout.categories)
    if boxes.shape[1] != 4 or more not in (0, 1):
        return None
    odds = np.exp(np.clip(logits, -60, 60))  # more would overflow
    scores = odds[:, :-1] / odds.sum(axis=1, keepdims=True) if more else odds / (1 + odds)
    return boxes * np.array([*layout.size[::-1]] * 2, np.float32), scores


DECODERS: Mapping[str, Callable[[Layout, Sequence[Any]], Parts]] = {
    "yolox": _yolox,
    "yolo": _yolo,
    "detr": _detr,
}
