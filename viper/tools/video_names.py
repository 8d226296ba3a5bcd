"""Which objects are in a clip and what they are called, by attention and crops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from viper.tools.video_events_model import CELL, CROP

if TYPE_CHECKING:
    from viper.tools.video_events_model import VideoEventsModel

MAX_OBJECTS = 6
SEEN_FRAMES = 2
CROPS = 8
"""Frames in which an object is looked at closely."""

SAME_PLACE = 9.0
"""Two texts that point at places less than this many pixels apart mean the same object."""


def names_in_view(
    model: VideoEventsModel,
    frames: Tensor,
    attention: Tensor,
    names: Sequence[str],
    given: Collection[str],
) -> list[str]:
    """What the objects of a clip are called; no two names for what is at the same place.

    Args:
        model: names what crops show.
        frames: uint8 [T, H, W, 3], the clip at the model's own size.
        attention: log-probabilities [M, T, S + 1] of where each name's text looks.
        names: M names, every colour with every shape in the model's order.
        given: names that are known to be in the clip, so they are chosen first.
    """
    maps = attention[..., :-1].exp()  # [M, T, S]
    shown = maps.sum(-1)
    centres = _centres(maps, frames.shape[2] // CELL)
    places = _places(shown, centres)
    if not places:
        return []
    count = min(CROPS, len(frames))
    moments = shown[places].topk(count).indices  # [places, count]
    crops = [
        crops_at(frames[m], centres[i, m].tolist()) for i, m in zip(places, moments, strict=True)
    ]
    looks = model.looks(torch.cat(crops))
    colours, shapes = (part.unflatten(0, (len(places), count)).mean(1) for part in looks)
    empty = (colours.argmax(-1) == colours.shape[-1] - 1) | (
        shapes.argmax(-1) == shapes.shape[-1] - 1
    )
    fits = (colours[:, :-1, None] + shapes[:, None, :-1]).flatten(1)  # [places, M]
    bonus = torch.tensor([50.0 * (name in given) for name in names], device=fits.device)
    fits = (fits + bonus).masked_fill(empty[:, None], -1e4)
    chosen: list[str] = []
    for _ in range(min(len(places), MAX_OBJECTS)):
        place, name = divmod(int(fits.argmax()), len(names))
        if fits[place, name] <= -1e4:
            break
        chosen.append(names[name])
        fits[place], fits[:, name] = -1e4, -1e4
    return chosen


def _places(shown: Tensor, centres: Tensor) -> list[int]:
    """Texts, the surest first, that point at something in view, each at another thing.

    ``shown`` [M, T] is how surely something is in view, ``centres`` [M, T, 2] where.
    """
    sure = shown > 0.5
    chosen: list[int] = []
    for i in shown.sum(-1).argsort(descending=True).tolist():
        if int(sure[i].sum()) < SEEN_FRAMES:
            continue
        if not any(_same_place(centres[i], centres[j], sure[i] & sure[j]) for j in chosen):
            chosen.append(i)
    return chosen[: 2 * MAX_OBJECTS]


def _same_place(one: Tensor, other: Tensor, both: Tensor) -> bool:
    """Whether two tracks [T, 2] are together in most of the frames ``both`` [T] bool."""
    if not bool(both.any()):
        return False
    return float((one - other)[both].norm(dim=-1).median()) < SAME_PLACE


def _centres(maps: Tensor, columns: int) -> Tensor:
    """Where (x, y in pixels) maps [M, T, S] point, as [M, T, 2]; strong cells count most."""
    sharp = maps.square() / maps.square().sum(-1, keepdim=True).clamp(min=1e-12)
    cell = torch.arange(maps.shape[-1], device=maps.device)
    places = torch.stack([cell % columns, cell // columns], -1).to(maps) + 0.5
    return sharp @ places * CELL


def crops_at(frames: Tensor, centres: Sequence[Sequence[float]]) -> Tensor:
    """Crops uint8 [N, CROP, CROP, 3] around pixels (x, y) of frames uint8 [N, H, W, 3].

    Beyond the borders the outermost pixels are repeated.
    """
    height, width = frames.shape[1:3]
    offsets = torch.arange(CROP, device=frames.device) - CROP // 2
    found = []
    for image, (x, y) in zip(frames, centres, strict=True):
        rows, columns = (
            (int(y) + offsets).clamp(0, height - 1),
            (int(x) + offsets).clamp(0, width - 1),
        )
        found.append(image[rows][:, columns])
    return torch.stack(found)
