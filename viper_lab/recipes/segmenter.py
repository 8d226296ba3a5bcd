"""The embedded segmenter: a small stock MaskFormer trained from scratch on rendered stills.

``viper lab world train segmenter``: 2,400 steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viper.models.vision.roles import Segment, Segmenter
from viper.models.vision.segmenter_maskformer import MaskFormerSegmenter
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit, summed
from viper_lab.recipes.segmenter_model import (
    BACKGROUND,
    LABELS,
    Segmented,
    SegmenterShape,
    SegmenterTrainer,
    new_model,
    save,
    segmenter_batch,
)
from viper_lab.world.id_maps import Ids, id_maps
from viper_lab.world.stills import LazySequence, Stills, rendered_stills
from viper_lab.world.vocabulary import SHAPES

TRAIN_STILLS, VAL_STILLS = 9_000, 300
STEPS, BATCH = 2_400, 16

HIT_IOU = 0.5


def train(options: TrainOptions) -> dict[str, float]:
    """Train on rendered stills, write the weights, and return the validation figures."""
    torch.manual_seed(options.seed)
    pictures = segmented_stills("train", TRAIN_STILLS, options.work)
    shape = SegmenterShape()
    trainer = SegmenterTrainer(new_model(shape), shape).to(options.device)
    steps = options.steps or STEPS

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        chosen = [pictures[int(i)] for i in rng.integers(len(pictures), size=BATCH)]
        parts = trainer.losses(segmenter_batch(chosen, rng).to(options.device))
        return summed(parts)

    plan = FitOptions(steps, 8e-4, warmup=min(200, steps // 10), weight_decay=0.03)
    trained: Any = fit(trainer, loss_at, plan, options.work / "segmenter" / "checkpoint.pt")
    export(trained.model, options.out)
    segmenter = MaskFormerSegmenter.from_pretrained(options.out, device=options.device)
    return evaluate(segmenter, segmented_stills("val", VAL_STILLS, options.work))


def export(model: Any, folder: Path) -> None:
    """Write the model for ``from_pretrained``, and the labels that name no object."""
    save(model, folder)
    stated = {"background": [LABELS[BACKGROUND]]}
    (folder / "viper.json").write_text(json.dumps(stated) + "\n", "utf-8")


def segmented(stills: Stills, maps: Sequence[Ids] | Ids) -> Sequence[Segmented]:
    """Combine stills, their id maps (:mod:`viper_lab.world.id_maps`), and their objects' shapes."""
    labels = [
        np.array([SHAPES.index(thing.shape) for thing in truth.scene.objects], np.int64)
        for truth in stills.truths
    ]
    return LazySequence(
        len(labels), lambda index: Segmented(stills.image(index), maps[index], labels[index])
    )


def segmented_stills(split: str, count: int, work: Path) -> Sequence[Segmented]:
    """Return stills from the store under ``work``, rendering missing ones; pixels stay on disk."""
    stills = rendered_stills(split, count, work / "stills")
    return segmented(stills, id_maps(stills))


def evaluate(segmenter: Segmenter, pictures: Iterable[Segmented]) -> dict[str, float]:
    """Compare segments with the true masks, objects of all pictures together.

    ``found`` is the share of objects that a segment with the right label covers at an IoU of at
    least .5, ``located`` the same with any label, ``iou`` the mean IoU of every object with its
    segment (0 if it has none), ``precision`` the share of segments that count as the segment of a
    found object (absent if there is no segment). Each segment counts for one object: pairs are
    matched greedily by IoU.
    """
    ious: list[float] = []
    right: list[bool] = []
    total = 0
    for picture in pictures:
        segments = segmenter.segments(segmenter.encode(picture.image), None)
        numbers = np.arange(1, len(picture.labels) + 1)[:, None, None]
        paired = paired_ious(mask_ious(picture.ids[None] == numbers, segments))
        total += len(segments)
        for label, (index, iou) in zip(picture.labels, paired, strict=True):
            ious.append(iou)
            right.append(index is not None and segments[index].label == SHAPES[int(label)])
    hits = [iou >= HIT_IOU for iou in ious]
    correct = [hit and good for hit, good in zip(hits, right, strict=True)]
    return {
        "n": float(len(ious)),
        "found": float(np.mean(correct)),
        "located": float(np.mean(hits)),
        "iou": float(np.mean(ious)),
        **({"precision": sum(correct) / total, "segments": float(total)} if total else {}),
    }


def mask_ious(masks: NDArray[np.bool_], segments: Sequence[Segment]) -> NDArray[np.float64]:
    """Return the IoU of each mask (bool [N, H, W]) with each segment, float [N, S]."""
    if not segments:
        return np.zeros((len(masks), 0))
    ours = masks.reshape(len(masks), -1).astype(np.float64)
    theirs = np.stack([each.mask for each in segments]).reshape(len(segments), -1)
    shared = ours @ theirs.astype(np.float64).T
    union = ours.sum(1)[:, None] + theirs.sum(1)[None] - shared
    return np.asarray(shared / np.maximum(union, 1))


def paired_ious(ious: NDArray[np.float64]) -> list[tuple[int | None, float]]:
    """Return each row's segment index and IoU, matched best first; (None, 0) for unmatched rows."""
    left = ious.copy()
    pairs: list[tuple[int | None, float]] = [(None, 0.0)] * len(ious)
    while left.size and left.max() > 0:
        row, column = (int(i) for i in np.unravel_index(left.argmax(), left.shape))
        pairs[row] = (column, float(left[row, column]))
        left[row], left[:, column] = 0, 0
    return pairs
