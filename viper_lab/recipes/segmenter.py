"""The embedded segmenter: a small stock MaskFormer trained from nothing on rendered stills.

``viper world train segmenter``: 2,400 steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from viper_lab.recipes.optim import Plan, TrainOptions, fit
from viper_lab.world.id_maps import Ids, id_maps
from viper_lab.world.stills import Stills, rendered_stills
from viper_lab.world.vocabulary import SHAPES

if TYPE_CHECKING:
    from torch import Tensor

    from viper.models.vision.roles import Segmenter
    from viper_lab.recipes.segmenter_batches import Segmented

TRAIN_STILLS, VAL_STILLS = 9_000, 300
STEPS, BATCH = 2_400, 16


def train(options: TrainOptions) -> dict[str, float]:
    """Trains on rendered stills, writes the weights, and returns what they reach on validation."""
    import torch

    from viper_lab.recipes.segmenter_batches import segmenter_batch
    from viper_lab.recipes.segmenter_model import SegmenterShape, SegmenterTrainer, new_model

    torch.manual_seed(options.seed)
    pictures = segmented_stills("train", TRAIN_STILLS, options.work)
    shape = SegmenterShape()
    trainer = SegmenterTrainer(new_model(shape), shape).to(options.device)
    steps = options.steps or STEPS

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        chosen = [pictures[int(i)] for i in rng.integers(len(pictures), size=BATCH)]
        parts = trainer.losses(segmenter_batch(chosen, rng).to(options.device))
        total = torch.stack(list(parts.values())).sum()
        return total, {name: float(part.detach()) for name, part in parts.items()}

    plan = Plan(steps, 8e-4, warmup=min(200, steps // 10), weight_decay=0.03)
    trained: Any = fit(trainer, loss_at, plan, options.work / "segmenter" / "checkpoint.pt")
    export(trained.model, options.out)
    return _reached(options)


def _reached(options: TrainOptions) -> dict[str, float]:
    from viper.models.vision.segmenter_maskformer import MaskFormerSegmenter

    segmenter = MaskFormerSegmenter.from_pretrained(options.out, device=options.device)
    return evaluate(segmenter, segmented_stills("val", VAL_STILLS, options.work))


def export(model: Any, folder: Path) -> None:
    """Writes the model as ``from_pretrained`` reads it, and which labels name no object."""
    from viper_lab.recipes.segmenter_batches import BACKGROUND
    from viper_lab.recipes.segmenter_model import LABELS, save

    save(model, folder)
    stated = {"background": [LABELS[BACKGROUND]]}
    (folder / "viper.json").write_text(json.dumps(stated) + "\n", "utf-8")


def evaluate(segmenter: Segmenter, pictures: Sequence[Segmented]) -> dict[str, float]:
    """See :func:`~viper_lab.recipes.segmenter_score.segmenter_figures`."""
    from viper_lab.recipes.segmenter_score import segmenter_figures

    return segmenter_figures(segmenter, pictures)


class SegmentedStills(Sequence["Segmented"]):
    """Stills with an id map each, see :mod:`viper_lab.world.id_maps`, and their objects' shapes."""

    def __init__(self, stills: Stills, maps: Sequence[Ids] | Ids) -> None:
        self._stills, self._maps = stills, maps
        self._labels = [
            np.array([SHAPES.index(thing.shape) for thing in truth.scene.objects], np.int64)
            for truth in stills.truths
        ]

    def __len__(self) -> int:
        return len(self._labels)

    @overload
    def __getitem__(self, index: int) -> Segmented: ...

    @overload
    def __getitem__(self, index: slice) -> list[Segmented]: ...

    def __getitem__(self, index: Any) -> Any:
        from viper_lab.recipes.segmenter_batches import Segmented

        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        return Segmented(self._stills.image(index), self._maps[index], self._labels[index])


def segmented_stills(split: str, count: int, work: Path) -> SegmentedStills:
    """Stills from the store under ``work``, rendering what is missing; pixels stay on disk."""
    stills = rendered_stills(split, count, work / "stills")
    return SegmentedStills(stills, id_maps(stills))
