"""Names of the objects in a clip, by attention and crops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from viper.models.vision.video_events_model import CELL, CROP

if TYPE_CHECKING:
    from viper.models.vision.video_events_model import VideoEventsModel

MAX_OBJECTS = 6
SEEN_FRAMES = 2
# Number of frames with a crop of an object.
CROPS = 8

MAX_PLACES = 14
# Texts that point at places fewer pixels apart than this mean the same object: before the crops are
# classified, and after both have the same colour.
SAME_PLACE, SAME_OBJECT = 6.0, 16.0

# Least log-probability of a name for the object at a place.
MIN_FIT = -2.5


def names_in_view(
    model: VideoEventsModel,
    frames: Tensor,
    attention: Tensor,
    names: Sequence[str],
    named: Collection[str],
) -> list[str]:
    """Return the names of the objects in a clip; no two names for the same place.

    Args:
        model: classifies crops.
        frames: uint8 [T, H, W, 3], the clip at the model's own size.
        attention: log-probabilities [M, T, S + 1] of where each name's text attends.
        names: M names, every colour with every shape in the model's order.
        named: names that must be in the clip, so they are chosen first.
    """
    maps = attention[..., :-1].exp()  # [M, T, S]
    tracks = _Tracks(maps.sum(-1), _centres(maps, frames.shape[2] // CELL))
    places = _places(tracks)
    if not places:
        return [name for name in names if name in named]
    fits = _fits(model, frames, tracks, places)
    best, own = fits.max(-1)
    required = [i for i, name in enumerate(names) if name in named]
    claims = [(int(fits[:, i].argmax()), i) for i in required]
    claims += [
        (p, int(own[p])) for p in best.argsort(descending=True).tolist() if best[p] > MIN_FIT
    ]
    chosen: dict[int, int] = {}  # place -> name
    for place, name in claims:
        blocked = place in chosen or name in chosen.values() or len(chosen) == MAX_OBJECTS
        if not blocked and not any(
            names[name].split()[0] == names[other].split()[0]
            and tracks.together(places[place], places[at], SAME_OBJECT)
            for at, other in chosen.items()
        ):
            chosen[place] = name
    in_view = [names[i] for i in chosen.values()]
    return in_view + [names[i] for i in required if names[i] not in in_view]


@dataclass(frozen=True)
class _Tracks:
    """Weights [M, T] and places [M, T, 2] (x, y in pixels) that M texts attend to."""

    weights: Tensor
    centres: Tensor

    def sure(self, text: int) -> Tensor:
        """Return the frames, bool [T], in which a text attends to an object rather than to
        nothing.
        """
        return self.weights[text] > 0.5

    def together(self, first: int, second: int, distance: float) -> bool:
        """Return True if two texts point at nearly the same place in most of their common
        frames.
        """
        both = self.sure(first) & self.sure(second)
        gaps = (self.centres[first] - self.centres[second])[both].norm(dim=-1)
        return bool(both.any()) and float(gaps.median()) < distance


def _places(tracks: _Tracks) -> list[int]:
    """Return the texts that point at an object, the strongest first, each at another place."""
    chosen: list[int] = []
    for i in tracks.weights.sum(-1).argsort(descending=True).tolist():
        in_view = int(tracks.sure(i).sum()) >= SEEN_FRAMES
        if in_view and not any(tracks.together(i, j, SAME_PLACE) for j in chosen):
            chosen.append(i)
    return chosen[:MAX_PLACES]


def _fits(
    model: VideoEventsModel, frames: Tensor, tracks: _Tracks, places: Sequence[int]
) -> Tensor:
    """Return log-probabilities [P, M] of each name for the object at each place.

    They are the mean over the crops with the highest weight, and very low for an empty place.
    """
    count = min(CROPS, len(frames))
    crops = []
    for place in places:
        moments = tracks.weights[place].topk(count).indices
        crops.append(crops_at(frames[moments], tracks.centres[place, moments].tolist()))
    looks = model.looks(torch.cat(crops))
    colours, shapes = (part.unflatten(0, (len(places), count)).mean(1) for part in looks)
    fits = (colours[:, :-1, None] + shapes[:, None, :-1]).flatten(1)
    empty = (colours[:, -1] > colours[:, :-1].amax(-1)) | (shapes[:, -1] > shapes[:, :-1].amax(-1))
    return fits - 100 * empty[:, None].to(fits)


def _centres(maps: Tensor, columns: int) -> Tensor:
    """Return the places (x, y in pixels) of maps [M, T, S], as [M, T, 2]; strong cells count
    most.
    """
    sharp = maps.square() / maps.square().sum(-1, keepdim=True).clamp(min=1e-12)
    cell = torch.arange(maps.shape[-1], device=maps.device)
    places = torch.stack([cell % columns, cell // columns], -1).to(maps) + 0.5
    return sharp @ places * CELL


def crops_at(frames: Tensor, centres: Sequence[Sequence[float]]) -> Tensor:
    """Return crops uint8 [N, CROP, CROP, 3] around pixels (x, y) of frames uint8 [N, H, W, 3].

    Beyond the borders the outermost pixels are repeated.
    """
    height, width = frames.shape[1:3]
    offsets = torch.arange(CROP, device=frames.device) - CROP // 2
    crops = []
    for image, (x, y) in zip(frames, centres, strict=True):
        rows, columns = (
            (int(y) + offsets).clamp(0, height - 1),
            (int(x) + offsets).clamp(0, width - 1),
        )
        crops.append(image[rows][:, columns])
    return torch.stack(crops)
