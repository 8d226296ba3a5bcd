"""How well a segmenter finds objects: the share found with the right label, and mean IoU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from viper.models.vision.roles import Segment, Segmenter
from viper_lab.world.vocabulary import SHAPES

if TYPE_CHECKING:
    from viper_lab.recipes.segmenter_batches import Segmented

HIT_IOU = 0.5


def segmenter_figures(segmenter: Segmenter, pictures: Iterable[Segmented]) -> dict[str, float]:
    """How its segments compare with the true masks, objects of all pictures together.

    ``found`` is the share of objects that a segment with the right label covers at an IoU of
    at least .5, ``located`` the same with any label, ``iou`` the mean IoU of every object with
    its segment (0 where it has none), ``precision`` the share of segments that are the one found
    for an object (left out where there is no segment). Each segment counts for one object:
    pairs are made greedily by IoU.
    """
    ious: list[float] = []
    right: list[bool] = []
    said = 0
    for picture in pictures:
        segments = segmenter.segments(segmenter.encode(picture.image), None)
        numbers = np.arange(1, len(picture.labels) + 1)[:, None, None]
        paired = paired_ious(mask_ious(picture.ids[None] == numbers, segments))
        said += len(segments)
        for label, (index, iou) in zip(picture.labels, paired, strict=True):
            ious.append(iou)
            right.append(index is not None and segments[index].label == SHAPES[int(label)])
    hits = [iou >= HIT_IOU for iou in ious]
    found = [hit and good for hit, good in zip(hits, right, strict=True)]
    return {
        "n": float(len(ious)),
        "found": float(np.mean(found)),
        "located": float(np.mean(hits)),
        "iou": float(np.mean(ious)),
        **({"precision": sum(found) / said, "segments": float(said)} if said else {}),
    }


def mask_ious(masks: NDArray[np.bool_], segments: Sequence[Segment]) -> NDArray[np.float64]:
    """float [N, S]: IoU of each mask (bool [N, H, W]) with each segment."""
    if not segments:
        return np.zeros((len(masks), 0))
    ours = masks.reshape(len(masks), -1).astype(np.float64)
    theirs = np.stack([each.mask for each in segments]).reshape(len(segments), -1)
    shared = ours @ theirs.astype(np.float64).T
    union = ours.sum(1)[:, None] + theirs.sum(1)[None] - shared
    return np.asarray(shared / np.maximum(union, 1))


def paired_ious(ious: NDArray[np.float64]) -> list[tuple[int | None, float]]:
    """For each row its segment's index and IoU, best pairs first; (None, 0) where none is left."""
    left = ious.copy()
    pairs: list[tuple[int | None, float]] = [(None, 0.0)] * len(ious)
    while left.size and left.max() > 0:
        row, column = (int(i) for i in np.unravel_index(left.argmax(), left.shape))
        pairs[row] = (column, float(left[row, column]))
        left[row], left[:, column] = 0, 0
    return pairs
