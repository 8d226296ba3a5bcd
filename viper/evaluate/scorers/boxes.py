"""Overlap of boxes in a picture and of windows in time."""

from __future__ import annotations

import math
from collections.abc import Sequence


def box_iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Intersection over union in [0, 1]; 0 where either box is empty or not finite.

    Boxes are ``(x0, y0, x1, y1)`` in pixels from the top-left corner, x1 and y1 exclusive:
    boxes that only touch do not overlap, and no pixel is added to widths.
    """
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    inter = max(width, 0.0) * max(height, 0.0)
    union = _area(first) + _area(second) - inter
    if not all(map(math.isfinite, (*first, *second, inter, union))) or union <= 0:
        return 0.0
    return min(inter / union, 1.0)


def window_iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Intersection over union of two windows ``(start, end)`` in time; 0 where either is empty."""
    inter = max(0.0, min(first[1], second[1]) - max(first[0], second[0]))
    union = max(0.0, first[1] - first[0]) + max(0.0, second[1] - second[0]) - inter
    return inter / union if union > 0 else 0.0


def ground_correct(
    prediction: Sequence[float] | None, target: Sequence[float], threshold: float = 0.5
) -> bool:
    """Whether the predicted box overlaps the target by at least that IoU (acc@0.5)."""
    return prediction is not None and box_iou(prediction, target) >= threshold


def _area(box: Sequence[float]) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)
