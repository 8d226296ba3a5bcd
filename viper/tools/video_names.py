"""Which objects are in a clip and what they are called, by attention and crops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from viper.tools.video_events_model import CELL, CROP

if TYPE_CHECKING:
    from viper.tools.video_events_model import VideoEventsModel

MAX_OBJECTS = 6
SEEN_FRAMES = 2
CROPS = 8
"""Frames in which an object is looked at closely."""

MAX_SHARED = 0.5
"""Attention that overlaps by more than this share is on the same object."""


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
    places = _places(maps)
    if not places:
        return []
    crops = torch.stack([crop for i in places for crop in _crops(frames, maps[i])])
    colours, shapes = (part.unflatten(0, (len(places), -1)).mean(1) for part in model.looks(crops))
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


def _places(maps: Tensor) -> list[int]:
    """Texts, the surest first, that point at something in view, each at another thing."""
    shown = maps.sum(-1)
    sure = (shown > 0.5).sum(-1) >= SEEN_FRAMES
    flat, mass = maps.flatten(1), shown.sum(-1)
    chosen: list[int] = []
    for i in mass.argsort(descending=True).tolist():
        overlaps = (
            float(torch.minimum(flat[i], flat[j]).sum() / torch.minimum(mass[i], mass[j]))
            for j in chosen
        )
        if bool(sure[i]) and all(overlap < MAX_SHARED for overlap in overlaps):
            chosen.append(i)
    return chosen[: 2 * MAX_OBJECTS]


def _crops(frames: Tensor, attention: Tensor) -> Any:
    """Crops uint8 [CROPS, CROP, CROP, 3] around what a map [T, S] points at most surely."""
    columns = frames.shape[2] // CELL
    rows = attention.shape[1] // columns
    count = min(CROPS, len(frames))
    moments = attention.sum(-1).topk(count).indices.tolist()
    centres = [_centre(attention[t].unflatten(0, (rows, columns))) for t in moments]
    found = crops_at(frames[moments], centres)
    return found if count == CROPS else found[torch.arange(CROPS) % count]


def _centre(cells: Tensor) -> tuple[float, float]:
    """Where (x, y in pixels) the strongest cell of [rows, columns] and its neighbours point."""
    row, column = divmod(int(cells.argmax()), cells.shape[1])
    top, left = max(row - 1, 0), max(column - 1, 0)
    near = cells[top : row + 2, left : column + 2]
    total = float(near.sum()) + 1e-9
    x = float((near.sum(0) * torch.arange(near.shape[1]).to(near)).sum()) / total + left + 0.5
    y = float((near.sum(1) * torch.arange(near.shape[0]).to(near)).sum()) / total + top + 0.5
    return x * CELL, y * CELL


def crops_at(frames: Tensor, centres: Sequence[tuple[float, float]]) -> Tensor:
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
