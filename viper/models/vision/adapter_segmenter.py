"""Adapter of mask classifiers (MaskFormer's family): a query over the network's own segments.

Such a network segments objects without a known name nearly as well as others, and gives them a name
that it knows. So each segment is cut out and runs through the backbone once more, as large as most
of a picture. The soft prompt of a concept is a query and a shift of its products. Applied to the
description of a cut-out, it gives the probability of the concept. A segment of high probability
gets the concept's name; all others stay unchanged. No weight of the network changes.

The background of an object is masked out. A description is, in this order, the mean and the
deviation of the object's pixels with products of the means; its outline by places; its pixels by
places; then for each feature map of the backbone its values by places, its mean over the object,
and its deviation there, which is the texture.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.3. Differs: there 100 vectors are set beside the
decoder's inputs and trained by the mask loss. Put before the memory of the shipped network's
decoder (100 steps of Adam at 0.03 or 0.1, two concepts), they overfit seven pictures (loss from 5
to 0.3 or less), and separated objects of new pictures no better than chance: areas under the curve
of 0.49 to 0.56. The queries' masks needed no training. Queries over the maps of the whole picture,
in which an object is a few cells, recognised 0.42 of new objects among twelve concepts, with a
higher score than 99 % of the others; over cut-outs it is 0.74.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viper.models.vision.roles import Floats

if TYPE_CHECKING:
    from torch import Tensor

# A segment with a higher probability of a concept gets its name.
CUT = 0.5

# Width of a prompt's rows, because a query is longer than any model's width.
ROW = 256

# Number of places per side of a cut-out: of its outline, its pixels, and each feature map.
_OUTLINE, _PIXELS, _CELLS = 12, 6, 4

# Pixels of the window in which an object's colour may mix with the background.
_EDGE = 9


@dataclass(frozen=True, eq=False)
class Descriptions:
    """Descriptions of segments.

    Attributes:
        features: float32 [N, D].
        widths: of its parts, which make D.
    """

    features: Floats
    widths: tuple[int, ...]


def described(covers: Tensor, maps: Sequence[Tensor]) -> Descriptions:
    """Return the descriptions of cut-outs.

    Args:
        covers: float ``[N, 1, S, S]``, the share of each pixel that is the object's.
        maps: float ``[N, C, h, w]`` each: the cut-outs as the network takes them, then the
            backbone's maps of them.
    """
    import torch
    from torch.nn import functional

    covers, pixels = covers.float(), maps[0].float()
    parts = [_colours(covers, pixels), _placed(covers, _OUTLINE), _placed(pixels * covers, _PIXELS)]
    for values in maps[1:]:
        even = functional.layer_norm(values.float().movedim(1, -1), values.shape[1:2]).movedim(
            -1, 1
        )
        height, width = values.shape[-2:]
        cover = functional.adaptive_avg_pool2d(covers, (height, width))
        parts += [_placed(even * cover, _CELLS), *_within(cover, even)]
    features: Floats = torch.cat(parts, dim=1).cpu().numpy().astype(np.float32)
    return Descriptions(features, tuple(part.shape[1] for part in parts))


def _placed(values: Tensor, places: int) -> Tensor:
    """Return a map's means by places, float ``[N, C * places * places]``."""
    from torch.nn import functional

    return functional.adaptive_avg_pool2d(values, places).flatten(1)


def _colours(covers: Tensor, pixels: Tensor) -> Tensor:
    """Return mean, deviation and products of the means of the inner pixels, float ``[N, 12]``."""
    import torch
    from torch.nn import functional

    inside = (covers > 0.5).float()
    within = 1 - functional.max_pool2d(1 - inside, _EDGE, 1, _EDGE // 2)
    least = within.sum(dim=(1, 2, 3), keepdim=True) < 4 * _EDGE
    mean, spread = _within(torch.where(least, inside, within), pixels)
    pairs = torch.triu_indices(mean.shape[1], mean.shape[1])
    return torch.cat([mean, spread, mean[:, pairs[0]] * mean[:, pairs[1]]], dim=1)


def _within(covers: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation ``[N, C]`` of a map over objects, by the shares of its
    cells.
    """
    total = covers.sum(dim=(2, 3)).clamp(min=1e-6)
    mean = (values * covers).sum(dim=(2, 3)) / total
    away = (values - mean[..., None, None]).square()
    return mean, ((away * covers).sum(dim=(2, 3)) / total).sqrt()


def prompt_of(query: Floats, shift: float) -> Floats:
    """Return a query, its shift, and zeros up to the rows' end, float32 ``[R, ROW]``."""
    whole = np.append(query, shift).astype(np.float32)
    return np.pad(whole, (0, -len(whole) % ROW)).reshape(-1, ROW)


def score_concept(descriptions: Floats, vectors: Floats) -> Floats:
    """Return the probability of each segment to show the concept, float32 ``[N]`` in [0, 1].

    Args:
        descriptions: float32 ``[N, D]``.
        vectors: float32, as :func:`prompt_of` returns it.

    Raises:
        ValueError: a prompt of another segmenter.
    """
    width = descriptions.shape[-1]
    expected = (-(-(width + 1) // ROW), ROW)
    if vectors.shape != expected:
        raise ValueError(f"a prompt of shape {vectors.shape}; this segmenter's are {expected}")
    flat = vectors.ravel()
    logits = descriptions @ flat[:width] + flat[width]
    return (1 / (1 + np.exp(-logits.clip(-60, 60)))).astype(np.float32)


def picture_feature(last: Tensor) -> Floats:
    """Return the mean of the backbone's last map, which selects prompts, float32 ``[C]``."""
    return last[0].float().mean(dim=(1, 2)).cpu().numpy()
