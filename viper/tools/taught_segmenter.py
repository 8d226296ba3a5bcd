"""How a mask classifier (MaskFormer's family) is taught: by a query over its own segments.

Such a network finds objects that it has no name for nearly as well as others, and calls them by
the names that it has. The soft prompt of a concept is float32 ``[1, D + 1]``: a query, and what
is added to its products. It is laid over a description ``[D]`` of each segment that the network
finds by itself, and says how sure it is to show the concept; a segment that a concept is sure of
gets its name, all others stay as they were. No weight of the network takes part or changes.

A segment's description is, in this order, the state of the query that made it; its outline within
its box, with the box's proportions; the mean and the deviation of the pixels inside it, with
products of the means; and the mean and the deviation of each feature map of the backbone within it.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.3. Differs: there 100 vectors are set beside the
decoder's inputs and trained by the mask loss. Put before the memory of the shipped network's
decoder (100 steps of Adam at 0.03 or 0.1, two concepts), they learned seven pictures by heart (loss
from 5 to 0.3 or less), and told objects of new pictures apart no better than chance: areas under
the curve of 0.49 to 0.56. The queries' masks needed no teaching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viper.tools.roles import Floats, Mask

if TYPE_CHECKING:
    from torch import Tensor

CUT = 0.5
"""A segment of which a concept is surer than this gets its name."""


_OUTLINE = 12
"""Cells along each side of an outline as it is described."""

_EDGE = 5
"""Pixels of the window in which an object's own colour may be mixed with what is behind it."""


@dataclass(frozen=True, eq=False)
class Descriptions:
    """What is known of segments.

    Attributes:
        features: float32 [N, D].
        widths: of its parts, which make D: state, outline, pixels, then each feature map.
    """

    features: Floats
    widths: tuple[int, ...]


def described(masks: Sequence[Mask], maps: Sequence[Tensor], states: Tensor) -> Descriptions:
    """What is known of segments.

    Args:
        masks: bool ``[H, W]`` of the whole picture each.
        maps: float ``[1, C, h, w]`` each: the pixels as the network takes them, then the
            backbone's maps of them.
        states: float ``[N, W]`` of the queries that made them.
    """
    import torch

    if masks:
        covers = torch.from_numpy(np.stack(masks)).to(states.device, torch.float32)
    else:
        covers = states.new_zeros((0, 1, 1), dtype=torch.float32)
    parts = [states.float(), _outlines(masks).to(states.device), _colours(covers, maps[0])]
    parts += [_within(_shares(covers, one), one) for one in maps[1:]]
    features: Floats = torch.cat(parts, dim=1).cpu().numpy().astype(np.float32)
    return Descriptions(features, tuple(part.shape[1] for part in parts))


def _outlines(masks: Sequence[Mask]) -> Tensor:
    """float ``[N, cells + 3]``: the outlines within their boxes, and what these are like."""
    import torch
    from torch.nn import functional

    rows = []
    for mask in masks:
        high, wide = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
        part = mask[high[0] : high[-1] + 1, wide[0] : wide[-1] + 1]
        cover = torch.from_numpy(part.astype(np.float32))[None, None]
        cells = functional.interpolate(cover, size=(_OUTLINE, _OUTLINE), mode="area").flatten()
        sides = part.shape
        size = np.log(max(sides) / max(mask.shape))
        rows.append([*cells.tolist(), np.log(sides[0] / sides[1]), float(part.mean()), size])
    return torch.tensor(rows, dtype=torch.float32).reshape(len(masks), _OUTLINE**2 + 3)


def _colours(covers: Tensor, pixels: Tensor) -> Tensor:
    """float ``[N, 12]``: mean, deviation and products of the means of what is well inside."""
    import torch
    from torch.nn import functional

    shares = _shares(covers, pixels).reshape(len(covers), 1, *pixels.shape[-2:])
    inside = (shares > 0.5 * shares.amax(dim=(2, 3), keepdim=True)).float()
    within = 1 - functional.max_pool2d(1 - inside, _EDGE, 1, _EDGE // 2) if len(covers) else inside
    least = within.sum(dim=(1, 2, 3), keepdim=True) < 4 * _EDGE
    used = torch.where(least, inside, within).flatten(1)
    found = _within(used / used.sum(1, keepdim=True).clamp(min=1e-9), pixels)
    mean = found[:, : pixels.shape[1]]
    pairs = torch.triu_indices(mean.shape[1], mean.shape[1])
    return torch.cat([found, mean[:, pairs[0]] * mean[:, pairs[1]]], dim=1)


def _shares(covers: Tensor, one: Tensor) -> Tensor:
    """float ``[N, h * w]``: the share of each cell of a map in each mask; rows sum to 1."""
    from torch.nn import functional

    if not len(covers):
        return covers.new_zeros((0, one.shape[-2] * one.shape[-1]))
    shares = functional.interpolate(covers[None], size=one.shape[-2:], mode="area")[0].flatten(1)
    return shares / shares.sum(1, keepdim=True).clamp(min=1e-9)


def _within(shares: Tensor, one: Tensor) -> Tensor:
    """float ``[N, 2 * C]``: mean and standard deviation of a map ``[1, C, h, w]`` by shares."""
    import torch

    values = one[0].float().flatten(1).T  # (h * w, C)
    mean = shares @ values
    spread = (shares @ values.square() - mean.square()).clamp(min=0).sqrt()
    return torch.cat([mean, spread], dim=1)


def owners(
    scores: Tensor, labels: Tensor, likely: Tensor, masks: Sequence[Mask], named: Sequence[int]
) -> list[int]:
    """Which query made each segment: of those of its label the one that is surest of its pixels.

    Args:
        scores: float ``[Q]``, of the likeliest label each.
        labels: int ``[Q]``, that label.
        likely: float ``[Q, h, w]``, chance of each pixel to be in the query's mask.
        masks: bool ``[H, W]`` of the segments.
        named: the segments' labels.
    """
    import torch
    from torch.nn import functional

    if not masks:
        return []
    covers = torch.from_numpy(np.stack(masks)).to(likely.device, torch.float32)[None]
    shares = functional.interpolate(covers, size=likely.shape[-2:], mode="area")[0].flatten(1)
    weights = shares @ likely.float().flatten(1).T * scores  # (N, Q)
    wanted = torch.tensor(list(named), device=labels.device)[:, None]
    found: list[int] = weights.masked_fill(labels[None] != wanted, -1.0).argmax(1).tolist()
    return found


def prompt_of(query: Floats, shift: float) -> Floats:
    """float32 ``[1, D + 1]``: a query with what is added to its products."""
    return np.append(query, shift).astype(np.float32)[None]


def sureness(descriptions: Floats, vectors: Floats) -> Floats:
    """float32 ``[N]``: how sure each segment is to show the concept, in [0, 1].

    Args:
        descriptions: float32 ``[N, D]``.
        vectors: float32 ``[1, D + 1]``, as :func:`prompt_of` gives it.

    Raises:
        ValueError: a prompt of another width.
    """
    width = descriptions.shape[-1]
    if vectors.shape != (1, width + 1):
        raise ValueError(
            f"a prompt of shape {vectors.shape}; this segmenter's are (1, {width + 1})"
        )
    logits = descriptions @ vectors[0, :-1] + vectors[0, -1]
    found: Floats = (1 / (1 + np.exp(-logits.clip(-60, 60)))).astype(np.float32)
    return found


def picture_feature(last: Tensor) -> Floats:
    """float32 ``[C]``: the mean of the backbone's last map, by which prompts are found again."""
    mean: Floats = last[0].float().mean(dim=(1, 2)).cpu().numpy()
    return mean
