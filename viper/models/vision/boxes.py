"""Pixel boxes of masks and of proposals: detections are best first, finite, without near copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.errors import ModelError
from viper.models.vision.roles import Detection, Floats, Mask

# Boxes below this score are never proposed. It is below every floor of self-tuning in the shipped
# profiles (.05), so that a lower threshold needs no model call, and thousands of empty proposals
# are not kept.
MIN_SCORE = 0.01

# If two boxes of a phrase overlap more than this, only the better one stays. The usual value of
# detection (PASCAL VOC): objects side by side rarely overlap as much.
NMS_IOU = 0.5


def pixel_boxes(shares: Floats, size: tuple[int, int], frame: tuple[int, int] | None) -> Floats:
    """Convert shares of a frame to corners in pixels of the picture, clipped to it.

    Args:
        shares: float32 [N, 4], (centre x, centre y, width, height), each a share of the
            frame's width or height.
        size: (height, width) of the picture.
        frame: (height, width) in pixels of the picture that the shares refer to. It has the same
            top-left corner as the picture. None means the picture itself.

    Returns:
        float32 [N, 4], (x0, y0, x1, y1) from the top-left corner.
    """
    height, width = frame or size
    centre, half = shares[:, :2], shares[:, 2:] / 2
    corners = np.concatenate((centre - half, centre + half), axis=1)
    corners = corners * np.array([width, height, width, height], np.float32)
    return clip_corners(corners, size)


def mask_box(mask: Mask) -> tuple[int, int, int, int]:
    """Return the box (x0, y0, x1, y1) of a mask's pixels, in whole pixels; all 0 for none."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not len(rows):
        return (0, 0, 0, 0)
    return (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def clip_corners(corners: NDArray[Any], size: tuple[int, int]) -> Floats:
    """Return corners [N, 4] moved into a picture of that (height, width)."""
    limit = np.array([size[1], size[0]] * 2, np.float32)
    return np.clip(corners, 0, limit).astype(np.float32)


def require_finite(model: str, what: str, *values: NDArray[Any]) -> None:
    """Check that a model's output holds neither NaN nor infinity.

    Half precision can give such numbers, and every comparison with NaN is false, so that the model
    would seem to have found nothing.

    Args:
        model: id of the model, for the message.
        what: name of the output in the plural.

    Raises:
        ModelError: a value is not finite; the message says how to load the model instead.
    """
    if not all(np.isfinite(each).all() for each in values):
        raise ModelError(
            f"{model}: {what} that are not finite numbers; load it in full precision "
            '(dtype = "float32" in its options)'
        )


def suppress(
    boxes: Floats, scores: Floats, model: str = "the detector", overlap: float = NMS_IOU
) -> list[Detection]:
    """Return boxes at or above :data:`MIN_SCORE`, best first, without near copies or empty ones.

    Args:
        boxes: float32 [N, 4], (x0, y0, x1, y1) in pixels.
        scores: float32 [N], in [0, 1].
        model: id of the model, for errors.
        overlap: greatest IoU of two boxes.

    Raises:
        ModelError: a box or a score is not finite.
    """
    require_finite(model, "boxes", boxes, scores)
    sides = boxes[:, 2:] - boxes[:, :2]
    valid = np.flatnonzero((scores >= MIN_SCORE) & (sides.min(axis=1) > 0))
    order = valid[np.argsort(-scores[valid], kind="stable")]
    detections: list[Detection] = []
    while len(order):
        best, order = order[0], order[1:]
        detections.append(Detection(tuple(boxes[best].tolist()), float(scores[best])))
        order = order[overlaps(boxes[best][None], boxes[order])[0] <= overlap]
    return detections


def overlaps(boxes: Floats, others: Floats) -> Floats:
    """Return the IoU of each box with each other one, float32 [N, M]; corners in pixels."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(-1)
    areas = [(corners[:, 2:] - corners[:, :2]).prod(-1) for corners in (boxes, others)]
    union = areas[0][:, None] + areas[1][None] - shared
    return (shared / np.maximum(union, 1e-9)).astype(np.float32)
