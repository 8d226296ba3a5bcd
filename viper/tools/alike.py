"""Search of a picture for what looks like examples, by pixels alone: no detector, no training.

:func:`find_alike` slides windows of the examples' sizes over the picture (:func:`_windows`),
describes each by its colors and edges (:func:`_described`) and scores it by its likeness to the
examples (:func:`_likeness`).

Rules and weights were chosen on two thirds of ``bccd``, from three red cells in each smear. There
95 % of the labelled cells are among the boxes, and their average precision is .68 (IoU .5). The
likely boxes of YOLOX-nano instead of windows: .63, because 28 % of the cells are in none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from viper.errors import ToolError
from viper.models.libraries import cv2
from viper.models.vision.boxes import clip_corners, overlaps, suppress
from viper.models.vision.roles import Detection, Floats, Mask, Pixels
from viper.schema import PixelBox

# Sides of windows over the examples' mean sides, widths and heights apart. Things of one kind at
# one distance rarely differ more, and each further factor costs a third of the time.
FACTORS = (0.8, 1.0, 1.25)

# Steps of a window within its own side; fewer lose cells, more only cost time. In a picture with
# more windows than the second number the steps grow: describing so many takes 2 s. Of those the
# likeliest are compared for near copies, which takes time for each pair.
STEPS, MAX_WINDOWS, MAX_BOXES = 6, 40_000, 10_000

# Pixels of an example's longer side; pictures of larger ones are shrunk, since a description has
# CELLS * CELL samples a side and smoothing takes time with the size. Of the cells of bccd 95 % are
# smaller.
LARGEST = 160

# Sides from here on OpenCV does not map.
_MAX_SIDE = 32_767

# A window is described together with a quarter of its side around it, for the background tells a
# whole thing from a part: CELLS x CELLS cells of CELL x CELL pixels, edges in so many DIRECTIONS.
CONTEXT, CELLS, CELL, DIRECTIONS = 1.5, 6, 4, 6
_SIDE = CELLS * CELL

# Windows that are described at a time: OpenCV maps less than 32,768 rows.
_CHUNK = 1_000

# Least length of a description of edges: below it, differences are noise.
_FAINT = 0.02

# Two boxes that overlap more (IoU) show one thing: .68 of average precision, .61 with .5.
OVERLAP = 0.3

# Weights of the four likenesses and the bias, by logistic regression (IoU .6 with a labelled cell).
EDGES, COLOR, SIZE, CONTRAST, BIAS = 12.7, 9.9, 1.4, 16.5, -5.3


class _Description(NamedTuple):
    """Windows by their cells, [N, CELLS ** 2, ...]: sums of edges, and (L, a, b) / 100.

    ``inside`` says which cells lie in the picture, ``sides`` are logarithms [N, 2].
    """

    edges: Floats
    colors: Floats
    inside: Mask
    sides: Floats


def find_alike(picture: Pixels, source: Pixels, examples: Floats) -> list[Detection]:
    """Return boxes in a picture of what looks like the examples, best first, no near copies.

    Args:
        picture, source: uint8 [H, W, 3], RGB; the examples are parts of the source.
        examples: float32 [M, 4], (x0, y0, x1, y1) in pixels from the top-left corner.

    Raises:
        ToolError: a side of a picture is too long, even shrunk.
    """
    scale = min(1.0, LARGEST / float((examples[:, 2:] - examples[:, :2]).max()))
    examples = examples * np.float32(scale)
    sides = examples[:, 2:] - examples[:, :2]
    # Details below a 45th of an example are noise of the camera.
    noise = max(0.5, float(np.sqrt(sides.prod(1)).mean()) / 45)
    marked = _lab(source, scale, noise)
    lab = marked if picture is source else _lab(picture, scale, noise)
    models = _described(marked, examples)
    windows = _windows(lab.shape[:2], np.exp(np.log(sides).mean(0)))
    if not len(windows):
        return []  # the examples are larger than the picture
    parts = np.split(windows, range(_CHUNK, len(windows), _CHUNK))
    scores = [_likeness(_described(lab, part), models) for part in parts]
    likeness = np.concatenate(scores)
    best = np.argsort(-likeness, kind="stable")[:MAX_BOXES]
    boxes = clip_corners(windows[best] / scale, picture.shape[:2])
    return suppress(boxes, likeness[best], "find_like", OVERLAP)


def with_examples(found: Sequence[Detection], examples: Sequence[PixelBox]) -> list[Detection]:
    """Return the examples, of score 1, and what was found beside them."""
    boxes = np.array([each.box for each in found], np.float32).reshape(-1, 4)
    copied = overlaps(boxes, np.array(examples, np.float32)).max(axis=1) > OVERLAP
    others = [each for each, is_copy in zip(found, copied, strict=True) if not is_copy]
    return [*(Detection(box, 1.0) for box in examples), *others]


def _lab(picture: Pixels, scale: float, noise: float) -> Floats:
    """Return (L, a, b) / 100 of a picture, float32 [H, W, 3], shrunk and smoothed."""
    height, width = (max(1, round(side * scale)) for side in picture.shape[:2])
    if max(height, width) >= _MAX_SIDE:
        raise ToolError(
            f"find_like cannot search a picture of {width} x {height} pixels; expected sides "
            f"below {_MAX_SIDE:,}: cut the picture up"
        )
    if scale < 1:
        picture = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)  # type: ignore[assignment]
    lab = cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB) / 100
    return cv2.GaussianBlur(lab, (0, 0), noise)  # type: ignore[return-value]


def _windows(size: tuple[int, ...], sides: Floats) -> Floats:
    """Return windows [N, 4] of about these sides, of which a picture [H, W] holds 70 % or more."""
    height, width = size
    share = np.sqrt(len(FACTORS) ** 2 * width * height / (sides.prod() * MAX_WINDOWS))
    step = max(1 / STEPS, float(share))
    windows = []
    for w in sides[0] * np.array(FACTORS):
        for h in sides[1] * np.array(FACTORS):
            x = np.arange(w * 0.2, width - w * 0.2, w * step)
            y = np.arange(h * 0.2, height - h * 0.2, h * step)
            x, y = np.meshgrid(x, y)
            windows.append(np.stack((x - w / 2, y - h / 2, x + w / 2, y + h / 2), -1))
    return np.concatenate([each.reshape(-1, 4) for each in windows]).astype(np.float32)


def _described(lab: Floats, boxes: Floats) -> _Description:
    places = ((np.arange(_SIDE) + 0.5) / _SIDE - 0.5) * CONTEXT
    centres, sides = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    spots = (centres[:, :, None] + sides[:, :, None] * places).astype(np.float32)  # (N, 2, side)
    shape = (len(boxes), _SIDE, _SIDE)
    columns = np.broadcast_to(spots[:, 0, None, :], shape).reshape(-1, _SIDE)
    rows = np.broadcast_to(spots[:, 1, :, None], shape).reshape(-1, _SIDE)
    parts = cv2.remap(lab, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    parts = parts.reshape(*shape, 3)
    light = parts[..., 0]
    dx, dy = np.zeros_like(light), np.zeros_like(light)
    dx[:, :, 1:-1], dy[:, 1:-1] = light[:, :, 2:] - light[:, :, :-2], light[:, 2:] - light[:, :-2]
    polar = cv2.cartToPolar(dx.reshape(-1, _SIDE), dy.reshape(-1, _SIDE))
    strength, angles = (each.reshape(shape) for each in polar)
    bins = (angles * (DIRECTIONS / (2 * np.pi))).astype(np.int8) % DIRECTIONS
    edges = np.stack([_cells(strength * (bins == each)) for each in range(DIRECTIONS)], -1)
    limits = np.array(lab.shape[1::-1])[None, :, None]
    near = ((spots >= 0) & (spots < limits)).reshape(len(boxes), 2, CELLS, CELL).mean(-1) >= 0.5
    inside = near[:, 1, :, None] & near[:, 0, None, :]
    colors = np.stack([_cells(parts[..., each]) for each in range(3)], -1)
    return _Description(edges, colors, inside.reshape(len(boxes), -1), np.log(sides))


def _cells(values: NDArray[Any]) -> Floats:
    """Return the means of cells, [N, side, side] to [N, CELLS ** 2]."""
    size = (CELLS, CELLS * len(values))
    means = cv2.resize(values.reshape(-1, _SIDE), size, interpolation=cv2.INTER_AREA)
    return means.reshape(len(values), -1)  # type: ignore[return-value]


def _likeness(ones: _Description, models: _Description) -> Floats:
    """Return the probability [N] that windows show what the examples (``models``) show."""
    inside, here = ones.inside.astype(np.float32), models.inside.astype(np.float32)
    edges, lines = ones.edges * inside[..., None], models.edges * here[..., None]
    lengths = np.linalg.norm(edges, axis=(1, 2))[:, None]
    seen = np.sqrt(inside @ (lines**2).sum(-1).T)  # of examples, as far as the window lies inside
    flat = edges.reshape(len(edges), -1) @ lines.reshape(len(lines), -1).T
    alike = (flat / ((lengths + _FAINT) * (seen + _FAINT))).max(1)
    inner, outer = _inner_and_outer(ones)
    model_inner, model_outer = _inner_and_outer(models)
    colors = np.abs(inner[:, None] - model_inner[None]).sum(2).min(1)
    sizes = np.abs(ones.sides[:, None] - models.sides[None]).sum(2).min(1)
    contrast, expected = outer[:, 0] - inner[:, 0], (model_outer - model_inner)[:, 0].mean()
    contrasts = (contrast - expected) * np.sign(expected)
    logits = EDGES * alike - COLOR * colors - SIZE * sizes + CONTRAST * contrasts + BIAS
    return (1 / (1 + np.exp(-logits))).astype(np.float32)


def _inner_and_outer(ones: _Description) -> tuple[Floats, Floats]:
    """Return the mean colors [N, 3] of windows, and of what is around them."""
    means = []
    ring = np.pad(np.zeros((CELLS - 2, CELLS - 2), bool), 1, constant_values=True).reshape(-1)
    for cells in (~ring, ring):
        weights = (ones.inside & cells)[..., None].astype(np.float32)
        means.append((ones.colors * weights).sum(1) / np.maximum(weights.sum(1), 0.5))
    return means[0], means[1]
