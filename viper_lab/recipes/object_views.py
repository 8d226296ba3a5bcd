"""Crops of single objects of rendered stills, for training and testing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from viper.models.vision.roles import Pixels
from viper.schema import PixelBox
from viper.tools.crops import DEFAULT_MARGIN, object_crop
from viper_lab.world.scene import SceneObject
from viper_lab.world.stills import FreshStills, JoinedStills, Stills, rendered_stills

# Number of stills per split that recipes use.
COUNTS = {"train": 9000, "val": 500, "test": 1000}


@dataclass(frozen=True)
class ObjectView:
    """One visible object: index of its still, its description, and its visible box in pixels."""

    still: int
    thing: SceneObject
    box: PixelBox


class ObjectViews:
    """All objects of a set of stills, sorted by still."""

    def __init__(self, stills: Stills) -> None:
        self.stills = stills
        self._views = [
            ObjectView(index, thing, (float(x0), float(y0), float(x1), float(y1)))
            for index, truth in enumerate(stills.truths)
            for thing, (x0, y0, x1, y1) in zip(truth.scene.objects, truth.boxes, strict=True)
        ]

    @classmethod
    def load(cls, split: str, work: Path, frames: int = 0) -> ObjectViews:
        """Load a split's stills for recipes, rendering missing ones into ``work/stills``.

        ``frames`` of clips of the split are added.
        """
        stills: Stills = rendered_stills(split, COUNTS[split], work / "stills")
        if frames:
            stills = JoinedStills(stills, FreshStills.of_clips(split, range(frames)))
        return cls(stills)

    def __len__(self) -> int:
        return len(self._views)

    def pick(self, rng: np.random.Generator) -> ObjectView:
        """Draw a random object."""
        return self._views[int(rng.integers(len(self._views)))]

    def spread(self, limit: int) -> list[ObjectView]:
        """Return at most ``limit`` objects at even distances through the stills."""
        return [self._views[index] for index in _spread(len(self._views), limit)]

    def scenes(self, limit: int) -> list[int]:
        """Return at most ``limit`` indexes of stills at even distances."""
        return _spread(len(self.stills), limit)

    def image(self, view: ObjectView) -> Pixels:
        """Return the whole picture that shows the object."""
        return self.stills.image(view.still)

    def things(self, still: int) -> Sequence[SceneObject]:
        """Return all objects of a still."""
        return self.stills.truths[still].scene.objects


def training_crop(
    views: ObjectViews, view: ObjectView, size: int, rng: np.random.Generator
) -> Pixels:
    """Crop the object as an imprecise box would, mirrored half the time.

    Returns:
        uint8 [size, size, 3].
    """
    margin = DEFAULT_MARGIN * rng.uniform(0.9, 1.1)
    crop = resized(object_crop(views.image(view), jittered(view.box, rng), margin), size)
    return crop[:, ::-1] if rng.random() < 0.5 else crop


def recoloured(crop: Pixels, rng: np.random.Generator) -> Pixels:
    """Permute the colour channels of a crop: another colour, the same shape and material.

    Some colours never occur with some shapes in training, so a model may take the colour as
    evidence against the shape. On recoloured crops it must look at the shape. Their colour words
    are not asked for.
    """
    order = np.arange(3)
    while (order == np.arange(3)).all():
        order = rng.permutation(3)
    return crop[:, :, order]


def resized(image: Pixels, size: int) -> Pixels:
    """Resize the picture to a square without keeping proportions, uint8 [size, size, 3]."""
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BICUBIC))


def jittered(box: PixelBox, rng: np.random.Generator, share: float = 0.05) -> PixelBox:
    """Move each edge of the box by up to ``share`` of its width or height."""
    x0, y0, x1, y1 = box
    dx, dy = (x1 - x0) * share, (y1 - y0) * share
    moves = rng.uniform(-1, 1, 4)
    return (x0 + dx * moves[0], y0 + dy * moves[1], x1 + dx * moves[2], y1 + dy * moves[3])


def _spread(count: int, limit: int) -> list[int]:
    return sorted({int(index) for index in np.linspace(0, count - 1, min(limit, count))})


def normalised(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Normalise uint8 [B, H, W, 3] by mean and spread; return float [B, 3, H, W]."""
    middle, spread = (
        torch.tensor(values, device=pixels.device).view(3, 1, 1) for values in (mean, std)
    )
    return (pixels.permute(0, 3, 1, 2).float() / 255 - middle) / spread


def to_input(images: Pixels, device: str) -> Tensor:
    """Convert pixels to float32 [B, 3, S, S] in [-1, 1], for models with mean and spread 0.5."""
    pixels = torch.from_numpy(np.ascontiguousarray(images)).to(device).permute(0, 3, 1, 2)
    return pixels.float() / 127.5 - 1.0
