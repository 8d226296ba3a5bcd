"""Batches for the detector: pictures, crops of them, and the targets of every patch.

Programs also search crops. Part of the batches are therefore windows of a picture (strips beside an
object, halves, smaller copies), padded to a square and resized by the library's image processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from viper_lab.recipes.detector_model import DetectorShape, DetectorTargets
from viper_lab.recipes.detector_phrases import matches

IMAGE_MEAN = (0.48145466, 0.4578275, 0.40821073)
IMAGE_STD = (0.26862954, 0.26130258, 0.27577711)

_KEPT = 0.45
_NEAR_WEIGHT = 0.3


class Labels(NamedTuple):
    """Objects of one picture: boxes float32 [N, 4] in pixels, attributes int64 [N, 4]."""

    boxes: NDArray[np.float32]
    attributes: NDArray[np.int64]


class View(NamedTuple):
    """One training picture: pixels of the padded square, and its objects.

    Attributes:
        pixels: float32 [3, S, S], normalised.
        boxes: float32 [N, 4], (x0, y0, x1, y1) in pixels of the square.
        attributes: int64 [N, 4].
        unclear: float32 [M, 4], boxes of cropped objects that count neither as present nor absent.
    """

    pixels: Tensor
    boxes: NDArray[np.float32]
    attributes: NDArray[np.int64]
    unclear: NDArray[np.float32]


def random_view(
    image: NDArray[np.uint8], labels: Labels, rng: np.random.Generator, size: int, windowed: bool
) -> View:
    """Return an augmented view: mirrored half of the time, brightness changed, maybe cropped.

    Args:
        image: uint8 [H, W, 3].
        labels: its objects.
        rng: source of all choices.
        size: side of the model's input square, in pixels.
        windowed: crop a random window first.
    """
    height, width = image.shape[:2]
    window = _random_window(rng, width, height) if windowed else (0, 0, width, height)
    x0, y0, x1, y1 = window
    pixels = torch.from_numpy(np.array(image[y0:y1, x0:x1])).permute(2, 0, 1).float() / 255
    boxes, unclear, mask = cut_boxes(labels.boxes, window)
    if rng.random() < 0.5:
        pixels = pixels.flip(-1)
        boxes, unclear = (_mirror(b, x1 - x0) for b in (boxes, unclear))
    pixels = (pixels * float(rng.uniform(0.8, 1.2)) + float(rng.uniform(-0.05, 0.05))).clamp(0, 1)
    if windowed and rng.random() < 0.3:
        pixels, factor = _shrink(pixels, float(rng.uniform(0.6, 0.95)))
        boxes, unclear = boxes * factor, unclear * factor
    longer = max(pixels.shape[1:])
    scale = np.float32(size / longer)
    square = padded_square(pixels, size)
    return View(square, boxes * scale, labels.attributes[mask], unclear * scale)


def padded_square(pixels: Tensor, size: int) -> Tensor:
    """Pad with black right or below, resize, and normalise as OWLv2 does; return float [3, S, S].

    Args:
        pixels: float [3, H, W] in [0, 1].
        size: the side S.
    """
    height, width = pixels.shape[1:]
    longer = max(height, width)
    padded = functional.pad(pixels, (0, longer - width, 0, longer - height))
    if longer != size:
        padded = functional.interpolate(
            padded[None], (size, size), mode="bilinear", align_corners=False
        )[0]
    return normalised(padded)


def normalised(pixels: Tensor) -> Tensor:
    """Normalise pixels in [0, 1], float [..., 3, H, W], by the library's mean and deviation."""
    mean, std = (torch.tensor(v)[:, None, None] for v in (IMAGE_MEAN, IMAGE_STD))
    return (pixels - mean) / std


def cut_boxes(
    boxes: NDArray[np.float32], window: tuple[int, int, int, int]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
    """Return boxes visible through a window: (full ones, unclear ones, mask of the full ones)."""
    x0, y0, x1, y1 = window
    low = np.array([x0, y0, x0, y0], np.float32)
    high = np.array([x1, y1, x1, y1], np.float32)
    clipped = np.clip(boxes, low, high) - low
    sides = clipped[:, 2:] - clipped[:, :2]
    whole = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    share = sides.prod(axis=1) / np.maximum(whole, 1e-6)
    mask = (share >= _KEPT) & (sides.min(axis=1, initial=1e9) >= 5)
    unclear = ~mask & (share > 0)
    return clipped[mask], clipped[unclear], mask


def _random_window(rng: np.random.Generator, width: int, height: int) -> tuple[int, int, int, int]:
    """Draw a strip along one side of the picture, or any window of at least 40% per side."""
    kind = int(rng.integers(6))
    cut = float(rng.uniform(0.2, 0.9))
    if kind == 0:
        return 0, 0, max(32, int(cut * width)), height
    if kind == 1:
        return min(width - 32, int((1 - cut) * width)), 0, width, height
    if kind == 2:
        return 0, 0, width, max(32, int(cut * height))
    if kind == 3:
        return 0, min(height - 32, int((1 - cut) * height)), width, height
    wide, high = (int(side * rng.uniform(0.4, 1.0)) for side in (width, height))
    left, top = int(rng.integers(width - wide + 1)), int(rng.integers(height - high + 1))
    return left, top, left + wide, top + high


def _mirror(boxes: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    mirrored = boxes.copy()
    mirrored[:, 0], mirrored[:, 2] = width - boxes[:, 2], width - boxes[:, 0]
    return mirrored


def _shrink(pixels: Tensor, factor: float) -> tuple[Tensor, NDArray[np.float32]]:
    """Return a smaller copy and the factors (x, y, x, y) of its boxes."""
    height, width = pixels.shape[1:]
    small = (max(16, round(height * factor)), max(16, round(width * factor)))
    resized = functional.interpolate(pixels[None], small, mode="bilinear", antialias=True)[0]
    fx, fy = small[1] / width, small[0] / height
    return resized, np.array([fx, fy, fx, fy], np.float32)


def assign_patches(boxes: NDArray[np.float32], shape: DetectorShape) -> NDArray[np.int64]:
    """Return the patch that represents each object, int64 [N], all different.

    It is the patch that holds the box's centre, or the nearest free patch beside it. The last
    column is never used: there the library's box bias saturates the sigmoid, and such boxes would
    hardly learn.

    Args:
        boxes: float [N, 4], corners in pixels of the padded square.
        shape: the grid.
    """
    grid, patch = shape.grid, shape.patch_size
    used: set[int] = set()
    chosen = []
    for x0, y0, x1, y1 in boxes.tolist():
        cx, cy = (x0 + x1) / 2 / patch, (y0 + y1) / 2 / patch
        column = min(max(int(cx), 0), grid - 2)
        row = min(max(int(cy), 0), grid - 1)
        around = [
            ((c + 0.5 - cx) ** 2 + (r + 0.5 - cy) ** 2, r * grid + c)
            for r in range(max(0, row - 1), min(grid, row + 2))
            for c in range(max(0, column - 1), min(grid - 1, column + 2))
            if (r, c) != (row, column)
        ]
        order = [row * grid + column, *(cell for _, cell in sorted(around))]
        cell = next((cell for cell in order if cell not in used), order[0])
        used.add(cell)
        chosen.append(cell)
    return np.asarray(chosen, np.int64)


def select_patches(targets: DetectorTargets, count: int, rng: np.random.Generator) -> Tensor:
    """Return the patches to keep, int64 [B, count]: objects, then their neighbours, then others."""
    urgency = rng.random(targets.main.shape)
    urgency += 4 * targets.main.numpy() + 2 * targets.inside.numpy()
    chosen = np.sort(np.argsort(-urgency, axis=1)[:, :count], axis=1)
    return torch.from_numpy(chosen)


def _overlaps(box: Iterable[float], shape: DetectorShape) -> NDArray[np.bool_]:
    """Return bool [T], the patches that a box (pixel corners) overlaps."""
    cells = np.arange(shape.grid**2)
    rows, columns = cells // shape.grid, cells % shape.grid
    x0, y0, x1, y1 = (side / shape.patch_size for side in box)
    across = (columns + 1 > x0) & (columns < x1)
    return np.asarray(across & (rows + 1 > y0) & (rows < y1))


def batch_targets(
    views: Sequence[View], queries: NDArray[np.int64], shape: DetectorShape
) -> DetectorTargets:
    """Return the targets of each patch of each view for each phrase.

    Patches next to an object's own patch learn its box too. Their class loss is small if they name
    it, because non-maximum suppression removes the duplicates.

    Args:
        views: the pictures of the batch.
        queries: int64 [Q, 4], attributes of the phrases.
        shape: the grid.
    """
    grid = shape.grid
    cells = np.arange(grid * grid)
    rows, columns = cells // grid, cells % grid
    size = (len(views), grid * grid)
    positive = np.zeros((*size, len(queries)), np.float32)
    weight = np.ones_like(positive)
    boxes = np.full((*size, 4), 0.5, np.float32)
    box_weight = np.zeros(size, np.float32)
    attributes = np.zeros((*size, 4), np.int64)
    main, valid = np.zeros(size, np.float32), np.ones(size, np.float32)
    inside = np.zeros(size, np.float32)
    for b, view in enumerate(views):
        for x0, y0, x1, y1 in view.unclear:
            touched = _overlaps((x0, y0, x1, y1), shape)
            valid[b, touched] = 0
            weight[b, touched] = 0
        for box in view.boxes:
            inside[b, _overlaps(box, shape)] = 1
        if not len(view.boxes):
            continue
        cell = assign_patches(view.boxes, shape)
        apart = np.maximum(
            np.abs(rows[:, None] - cell // grid), np.abs(columns[:, None] - cell % grid)
        )
        nearest = apart.argmin(axis=1)
        near = apart[cells, nearest] <= 1
        owner = nearest[near]
        corners = view.boxes / shape.image_size
        middle, sides = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
        hit = matches(view.attributes, queries)
        boxes[b, near] = np.concatenate((middle, sides), axis=1)[owner]
        box_weight[b, near] = _NEAR_WEIGHT
        attributes[b, near] = view.attributes[owner]
        weight[b, near] = np.where(hit[owner], _NEAR_WEIGHT, 1.0)
        positive[b, cell] = hit
        weight[b, cell] = 1
        box_weight[b, cell] = 1
        attributes[b, cell] = view.attributes
        boxes[b, cell] = np.concatenate((middle, sides), axis=1)
        main[b, cell] = 1
        valid[b, cell] = 1
    arrays = (positive, weight, boxes, box_weight, attributes, main, valid, inside)
    return DetectorTargets(*(torch.from_numpy(array) for array in arrays))
