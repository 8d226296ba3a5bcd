"""The embedded detector: a small stock OWLv2, trained from scratch.

Pictures are rendered stills, and frames of clips, which show a table with edges.

``viper lab world train detector``: 3,600 steps, 11 minutes on one CPU core. AP50 on 150 validation
stills (frames of clips): object .98 (.98), shape .98 (.97), full phrase .94 (.96); before it was
trained on frames .98 (.96), .98 (.91), .95 (.88).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viper.evaluate.intervals import Estimate
from viper.models.vision.detector_owlv2 import Owlv2Detector
from viper.models.vision.roles import Detector, Pixels
from viper_lab.recipes.detector_batches import (
    Labels,
    batch_targets,
    normalised,
    random_view,
    select_patches,
)
from viper_lab.recipes.detector_model import (
    DetectorShape,
    DetectorTrainer,
    new_model,
    whiten_patches,
)
from viper_lab.recipes.detector_phrases import attributes_of, corpus, draw_phrases
from viper_lab.recipes.detector_score import best_threshold, detector_figures
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit, save_half, summed
from viper_lab.recipes.text import train_tokenizer
from viper_lab.world.stills import (
    FreshStills,
    JoinedStills,
    LazySequence,
    Stills,
    StillTruth,
    rendered_stills,
)

TRAIN_STILLS, TRAIN_FRAMES, VAL_STILLS = 9_000, 3_000, 300
STEPS, BATCH, PHRASES = 3_600, 16, 56
MERGES = 120

# Share of batches whose pictures are cropped or shrunk first.
WINDOWED = 0.2

# Share of the training with a sparse image tower, and its number of patches per picture.
SPARSE_UNTIL, SPARSE_PATCHES = 0.85, 64


def train(options: TrainOptions) -> dict[str, float]:
    """Train on rendered stills, write the weights, and return the validation figures."""
    torch.manual_seed(options.seed)
    shape = DetectorShape()
    tokenizer = train_tokenizer(corpus(), MERGES, shape.text_length)
    stills = rendered_stills("train", TRAIN_STILLS, options.work / "stills")
    frames = FreshStills.of_clips("train", range(TRAIN_FRAMES))
    pictures = labelled(JoinedStills(stills, frames))
    model = new_model(shape, tokenizer)
    whiten_patches(model, _some_pixels(stills, options.seed))
    trainer = DetectorTrainer(model).to(options.device)
    steps = options.steps or STEPS
    plan = FitOptions(steps, 1e-3, warmup=min(200, steps // 10), decay="tail", weight_decay=0.03)
    loss_at = batch_loss(trainer, shape, tokenizer, pictures, options.seed, steps)
    checkpoint = options.work / "detector" / "checkpoint.pt"
    best: Any = fit(trainer, loss_at, plan, checkpoint)
    export(best, shape, tokenizer, options.out)
    detector = Owlv2Detector.from_pretrained(options.out, device=options.device)
    threshold = calibrate(detector, options.out, options.work)
    reached = evaluate(detector, "val", VAL_STILLS, options.work)
    return {"threshold": threshold, **{name: figure.value for name, figure in reached.items()}}


def _some_pixels(stills: Stills, seed: int) -> Tensor:
    """Return a few hundred normalised training pictures of one size, float [N, 3, H, W]."""
    chosen = np.random.default_rng(seed).integers(len(stills), size=300)
    stacked = np.stack([stills.image(int(i)) for i in chosen])
    return normalised(torch.from_numpy(stacked).permute(0, 3, 1, 2).float() / 255)


def batch_loss(
    trainer: DetectorTrainer,
    shape: DetectorShape,
    tokenizer: Any,
    pictures: Sequence[tuple[Pixels, Labels]],
    seed: int,
    steps: int,
) -> Callable[[int], tuple[Tensor, Mapping[str, float]]]:
    """Return the loss function of each step for :func:`~viper_lab.recipes.optim.fit`."""
    device = trainer.model.device
    every = torch.arange(shape.grid**2).expand(BATCH, -1)

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((seed, step))
        windowed = bool(rng.random() < WINDOWED)
        batch = [pictures[int(i)] for i in rng.integers(len(pictures), size=BATCH)]
        views = [
            random_view(image, labels, rng, shape.image_size, windowed) for image, labels in batch
        ]
        phrases = draw_phrases(rng, np.concatenate([v.attributes for v in views]), PHRASES)
        targets = batch_targets(views, phrases.queries, shape)
        sparse = step < SPARSE_UNTIL * steps
        patches = select_patches(targets, SPARSE_PATCHES, rng) if sparse else every
        tokens = tokenizer(phrases.texts, padding=True, return_tensors="pt").to(device)
        parts = trainer.losses(
            torch.stack([view.pixels for view in views]).to(device),
            tokens["input_ids"],
            tokens["attention_mask"],
            targets.at(patches).to(device),
            patches.to(device),
        )
        return summed(parts)

    return loss_at


def export(trainer: Any, shape: DetectorShape, tokenizer: Any, folder: Path) -> None:
    """Write the model in half precision with its processor, for ``from_pretrained``."""
    from transformers import Owlv2ImageProcessor, Owlv2Processor

    side = {"height": shape.image_size, "width": shape.image_size}
    save_half(trainer.model, folder, Owlv2Processor(Owlv2ImageProcessor(size=side), tokenizer))


def calibrate(detector: Detector, folder: Path, work: Path) -> float:
    """Find the best threshold on validation stills and write it to ``viper.json`` in the folder."""
    threshold = best_threshold(detector, labelled_stills("val", VAL_STILLS, work))
    (folder / "viper.json").write_text(json.dumps({"threshold": threshold}) + "\n", "utf-8")
    return threshold


def evaluate(detector: Detector, split: str, count: int, work: Path) -> dict[str, Estimate]:
    """Return AP50 per kind of query and referring accuracy on the first stills of a split.

    Args:
        detector: any backend of the role.
        split: ``train``, ``val`` or ``test``.
        count: number of stills.
        work: folder that stores rendered stills.
    """
    return detector_figures(detector, labelled_stills(split, count, work))


def labels_of(truth: StillTruth) -> Labels:
    """Return boxes and attributes of a still's ground truth."""
    return Labels(truth.boxes, attributes_of(truth.scene.objects))


def labelled_stills(split: str, count: int, work: Path) -> Sequence[tuple[Pixels, Labels]]:
    """Return pictures with their objects from the store under ``work``, rendering missing ones.

    Pixels are read from disk on access.
    """
    return labelled(rendered_stills(split, count, work / "stills"))


def labelled(stills: Stills) -> Sequence[tuple[Pixels, Labels]]:
    """Return pictures with their objects."""
    labels = [labels_of(truth) for truth in stills.truths]
    return LazySequence(len(stills), lambda index: (stills.image(index), labels[index]))
