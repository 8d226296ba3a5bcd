"""Batches for the segmenter: augmented pictures with the mask and the label of everything in them.

Labels are shapes, so a picture whose colour channels are exchanged is as good as a new one:
no shape can be learned from the colours that it happens to have in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from viper.models.vision.roles import Pixels
from viper_lab.recipes.object_views import normalised
from viper_lab.world.id_maps import Ids
from viper_lab.world.vocabulary import SHAPES

BACKGROUND = len(SHAPES)

IMAGE_MEAN, IMAGE_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Those of the library's image processor."""

TARGET_STRIDE = 4
"""Pixels along a side of one value of a target mask: that of the model's own masks."""

RECOLOURED, WINDOWED = 0.5, 0.2
"""Share of pictures with exchanged colour channels, and of those of which a part is enlarged."""

_LEAST_AREA = 24
"""Pixels of which less is left of an object that a window cuts: it counts as background."""


class Segmented(NamedTuple):
    """One picture: uint8 [H, W, 3], ids uint8 [H, W] (0: no object), and a label per object."""

    image: Pixels
    ids: Ids
    labels: NDArray[np.int64]


class SegmenterBatch(NamedTuple):
    """What one step learns from; the background is the last mask of every picture.

    Attributes:
        pixels: float [B, 3, H, W], normalised.
        masks: for each picture float [N + 1, H / 4, W / 4], the share of each object in each cell.
        labels: for each picture int64 [N + 1].
    """

    pixels: Tensor
    masks: list[Tensor]
    labels: list[Tensor]

    def to(self, device: torch.device | str) -> SegmenterBatch:
        """The same on a device."""
        masks, labels = ([each.to(device) for each in part] for part in self[1:])
        return SegmenterBatch(self.pixels.to(device), masks, labels)


def segmenter_batch(pictures: Sequence[Segmented], rng: np.random.Generator) -> SegmenterBatch:
    """Augmented views of some pictures, all of one size."""
    views = [_view(picture, rng) for picture in pictures]
    targets = [_targets(view) for view in views]
    images = torch.from_numpy(np.stack([view.image for view in views]))
    return SegmenterBatch(
        normalised(images, IMAGE_MEAN, IMAGE_STD),
        [masks for masks, _ in targets],
        [labels for _, labels in targets],
    )


def _view(picture: Segmented, rng: np.random.Generator) -> Segmented:
    """Mirrored half of the time, lighter or darker, maybe recoloured or a part of it enlarged."""
    image, ids = picture.image, picture.ids
    if rng.random() < WINDOWED:
        image, ids = _enlarged(image, ids, rng)
    if rng.random() < 0.5:
        image, ids = image[:, ::-1], ids[:, ::-1]
    if rng.random() < RECOLOURED:
        image = image[:, :, rng.permutation(3)]
    light = image.astype(np.float32) * rng.uniform(0.85, 1.15) + rng.uniform(-10, 10)
    return Segmented(np.clip(light, 0, 255).astype(np.uint8), ids, picture.labels)


def _enlarged(image: Pixels, ids: Ids, rng: np.random.Generator) -> tuple[Pixels, Ids]:
    """A window of at least 60% a side, at the picture's own size."""
    height, width = ids.shape
    wide, high = (int(side * rng.uniform(0.6, 1.0)) for side in (width, height))
    left, top = int(rng.integers(width - wide + 1)), int(rng.integers(height - high + 1))
    window = (slice(top, top + high), slice(left, left + wide))
    pixels = torch.from_numpy(np.array(image[window])).permute(2, 0, 1)[None].float()
    large = functional.interpolate(pixels, (height, width), mode="bilinear", align_corners=False)
    rows, columns = (
        (np.arange(count) + 0.5) * part / count for count, part in ((height, high), (width, wide))
    )
    near = ids[window][rows.astype(int)[:, None], columns.astype(int)]
    return large[0].permute(1, 2, 0).round().numpy().astype(np.uint8), near


def _targets(view: Segmented) -> tuple[Tensor, Tensor]:
    """Masks float [N + 1, h, w] and labels int64 [N + 1] of what is visible."""
    numbers = np.arange(1, len(view.labels) + 1)
    masks = view.ids[None] == numbers[:, None, None]
    kept = masks.sum(axis=(1, 2)) >= _LEAST_AREA
    masks = masks[kept]
    everything = np.concatenate([masks, ~masks.any(axis=0, keepdims=True)])
    pooled = functional.avg_pool2d(torch.from_numpy(everything).float(), TARGET_STRIDE)
    labels = np.append(view.labels[kept], BACKGROUND)
    return pooled, torch.from_numpy(labels)
