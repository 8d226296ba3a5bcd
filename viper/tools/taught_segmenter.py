"""How a mask classifier (MaskFormer's family) is taught: by a query over its own segments.

Such a network finds objects that it has no name for nearly as well as others, and calls them by
the names that it has. The soft prompt of a concept is float32 ``[1, D + 1]``: a query, and what
is added to its products. It is laid over a description ``[D]`` of each segment that the network
finds by itself, and says how sure it is to show the concept; a segment that a concept is sure of
gets its name, all others stay as they were. No weight of the network takes part or changes.

A segment's description is the state of the query that made it, then, of each feature map of the
backbone, the mean and the standard deviation within its mask.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.3. Differs: there 100 vectors are set beside the
decoder's inputs and trained by the mask loss. Put before the memory of the shipped network's
decoder (100 steps of Adam at 0.03 or 0.1, two concepts), they learned seven pictures by heart (loss
from 5 to 0.3 or less), and told objects of new pictures apart no better than chance: areas under
the curve of 0.49 to 0.56. The queries' masks needed no teaching.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from viper.tools.roles import Floats, Mask

if TYPE_CHECKING:
    from torch import Tensor

CUT = 0.5
"""A segment of which a concept is surer than this gets its name."""


def described(masks: Sequence[Mask], maps: Sequence[Tensor], states: Tensor) -> Floats:
    """What is known of segments, float32 ``[N, D]``.

    Args:
        masks: bool ``[H, W]`` of the whole picture each.
        maps: ``[1, C, h, w]`` of the same picture each.
        states: ``[N, W]`` of the queries that made them.
    """
    import torch
    from torch.nn import functional

    if not masks:
        width = states.shape[-1] + 2 * sum(one.shape[1] for one in maps)
        return np.zeros((0, width), np.float32)
    covers = torch.from_numpy(np.stack(masks)).to(states.device, torch.float32)[None]
    parts = [states.float()]
    for one in maps:
        shares = functional.interpolate(covers, size=one.shape[-2:], mode="area")[0].flatten(1)
        shares = shares / shares.sum(1, keepdim=True).clamp(min=1e-9)  # (N, h * w)
        values = one[0].float().flatten(1).T  # (h * w, C)
        mean = shares @ values
        spread = (shares @ values.square() - mean.square()).clamp(min=0).sqrt()
        parts += [mean, spread]
    found: Floats = torch.cat(parts, dim=1).cpu().numpy().astype(np.float32)
    return found


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
