"""Teaches the video model to name objects from crops."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.world.clip_store import ClipStore
from viper.world.scene import CLIP_HEIGHT, CLIP_WIDTH, RenderedClip
from viper.world.training.optim import Plan, fit
from viper.world.training.video_augment import varied
from viper.world.vocabulary import COLOURS, SHAPES

if TYPE_CHECKING:
    from torch import Tensor

STEPS, CLIPS_A_STEP, CROPS_A_CLIP = 500, 4, 32
EMPTY_SHARE = 0.12
JITTER = 2.5
"""Standard deviation, in pixels, of where a crop is centred."""

MIN_SIDE = 5


def learn_looks(model: Any, store: ClipStore, clips: int, checkpoint: Path, seed: int) -> Any:
    """The model with its crop tower trained; nothing else in it changes."""
    import torch

    from viper.tools.video_names import crops_at

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((seed, 5, step))
        crops, colours, shapes = [], [], []
        for index in rng.integers(clips, size=CLIPS_A_STEP):
            clip = varied(store[int(index)], rng)
            frames, centres, *ids = zip(*spots(clip, rng, CROPS_A_CLIP), strict=True)
            crops.append(crops_at(torch.from_numpy(clip.frames[list(frames)]), centres))
            colours += ids[0]
            shapes += ids[1]
        device = next(model.parameters()).device
        seen = model.looks(torch.cat(crops).to(device))
        wanted = [torch.tensor(ids, device=device) for ids in (colours, shapes)]
        losses = [torch.nn.functional.nll_loss(s, w) for s, w in zip(seen, wanted, strict=True)]
        right = [
            float((s.argmax(-1) == w).float().mean()) for s, w in zip(seen, wanted, strict=True)
        ]
        return losses[0] + losses[1], {"colour": right[0], "shape": right[1]}

    plan = Plan(steps=STEPS, learning_rate=3e-3, warmup=30, ema=0.98, log_every=20)
    return fit(model, loss_at, plan, checkpoint)


def spots(
    clip: RenderedClip, rng: np.random.Generator, count: int
) -> list[tuple[int, tuple[float, float], int, int]]:
    """Frame, centre (x, y), colour id and shape id of places to look at, some of them empty."""
    there = np.argwhere(~np.isnan(clip.boxes[..., 0]))
    found: list[tuple[int, tuple[float, float], int, int]] = []
    while len(found) < count:
        if rng.random() < EMPTY_SHARE:
            frame = int(rng.integers(len(clip.frames)))
            x, y = rng.uniform(0, CLIP_WIDTH), rng.uniform(0, CLIP_HEIGHT)
            boxes = clip.boxes[frame]
            near = np.hypot(boxes[:, 0] + boxes[:, 2] - 2 * x, boxes[:, 1] + boxes[:, 3] - 2 * y)
            if not (near < 40).any():
                found.append((frame, (float(x), float(y)), len(COLOURS), len(SHAPES)))
            continue
        frame, i = (int(v) for v in there[rng.integers(len(there))])
        x0, y0, x1, y1 = (float(v) for v in clip.boxes[frame, i])
        if min(x1 - x0, y1 - y0) < MIN_SIDE:
            continue
        dx, dy = rng.normal(0, JITTER, 2)
        thing = clip.objects[i]
        centre = ((x0 + x1) / 2 + float(dx), (y0 + y1) / 2 + float(dy))
        found.append((frame, centre, COLOURS.index(thing.colour), SHAPES.index(thing.shape)))
    return found
