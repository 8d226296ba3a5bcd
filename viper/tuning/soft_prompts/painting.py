"""What an inpainter is taught and judged by: found pictures with their middle masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.models.vision.inpaint_window import resized
from viper.models.vision.roles import Pixels
from viper.tuning.collect import FoundPicture

if TYPE_CHECKING:
    from torch import Tensor

    from viper.models.vision.taught_inpainter import InpainterLessons, Masked

SHARES = (0.5, 0.8)
"""Width and height of what is masked, each as a share of the picture's.

A found picture has no outline; a search finds its object in the middle, with some context. At work,
what is masked takes two thirds of the square that the model sees.
"""


@dataclass(frozen=True, eq=False)
class Gallery:
    """Found pictures as the model sees them.

    Attributes:
        names: as their search names them.
        squares: float [P, 3, S, S] in [-1, 1].
    """

    names: tuple[str, ...]
    squares: Tensor


def gallery_of(pictures: Sequence[FoundPicture], side: int) -> Gallery:
    """The middle square of each picture, at the model's resolution.

    Raises:
        MediaError: a picture that cannot be read.
    """
    import torch

    squares = np.stack([resized(middle(picture.pixels()), side) for picture in pictures])
    tensors = torch.from_numpy(squares).permute(0, 3, 1, 2).float() / 127.5 - 1
    return Gallery(tuple(picture.picture_id for picture in pictures), tensors)


def middle(pixels: Pixels) -> Pixels:
    """The largest square around the middle, uint8 [S, S, 3]."""
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return np.ascontiguousarray(pixels[top : top + side, left : left + side])


@dataclass(frozen=True, eq=False)
class Examples:
    """Pictures to restore, the same for all prompts that are compared on them.

    Attributes:
        which: the picture of each.
        masked: what the model is shown of it.
        times: int64 [B], how much noise.
        noise: float [B, C, s, s].
    """

    which: tuple[int, ...]
    masked: Masked
    times: Tensor
    noise: Tensor


def examples(
    lessons: InpainterLessons, gallery: Gallery, which: Sequence[int], seed: tuple[int, ...]
) -> Examples:
    """One example of each picture named, mirrored half the time, with evenly spread times."""
    import torch

    rng = np.random.default_rng(seed)
    side, count = gallery.squares.shape[-1], len(which)
    squares = gallery.squares[list(which)]
    mirrored = torch.from_numpy(rng.random(count) < 0.5)[:, None, None, None]
    squares = torch.where(mirrored, squares.flip(-1), squares)
    masks = torch.from_numpy(np.stack([_box(side, rng) for _ in which]))[:, None].float()
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    masked = lessons.masked(squares, masks, generator)
    spread = (rng.random() + rng.permutation(count) / count) % 1.0
    times = torch.from_numpy((spread * lessons.moments).astype(np.int64))
    noise = torch.randn(masked.latents.shape, generator=generator)
    return Examples(tuple(which), masked, times, noise)


def _box(side: int, rng: np.random.Generator) -> Any:
    """A centred box, bool [S, S]."""
    mask = np.zeros((side, side), bool)
    height, width = (round(side * share) for share in rng.uniform(*SHARES, 2))
    top, left = (side - height) // 2, (side - width) // 2
    mask[top : top + height, left : left + width] = True
    return mask
