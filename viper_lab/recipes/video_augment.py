"""Variations of a clip that leave its events as they are."""

from __future__ import annotations

import numpy as np

from viper_lab.world.scene import CLIP_WIDTH, RenderedClip


def varied(clip: RenderedClip, rng: np.random.Generator) -> RenderedClip:
    """The clip, half of the time mirrored, under a little more or less light."""
    frames, boxes = clip.frames, clip.boxes
    if rng.random() < 0.5:
        frames = frames[:, :, ::-1]
        boxes = boxes.copy()
        boxes[..., [0, 2]] = CLIP_WIDTH - boxes[..., [2, 0]]
    levels = np.arange(256) * rng.uniform(0.9, 1.1) + rng.uniform(-8, 8)
    frames = np.ascontiguousarray(np.clip(levels, 0, 255).astype(np.uint8)[frames])
    return RenderedClip(clip.objects, frames, boxes, clip.events, clip.seed)
