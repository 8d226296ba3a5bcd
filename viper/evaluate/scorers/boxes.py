"""Overlap of boxes in a picture and of windows in time."""

from __future__ import annotations

from collections.abc import Sequence

from viper.agreement import box_iou


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
