"""Which objects are in a clip and what they are called, by attention and crops."""

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
CROPS = 8
"""Frames in which an object is looked at closely."""

MAX_PLACES = 14
SAME_PLACE, SAME_OBJECT = 6.0, 16.0
"""Texts that point at places fewer pixels apart than this mean the same: without looking, and
where both are found to be of one colour."""

MIN_FIT = -2.5
"""Least log-probability of a name for what is at a place."""


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
    tracks = _Tracks(maps.sum(-1), _centres(maps, frames.shape[2] // CELL))
    places = _places(tracks)
    if not places:
        return [name for name in names if name in given]
    fits = _fits(model, frames, tracks, places)
    best, own = fits.max(-1)
    known = [i for i, name in enumerate(names) if name in given]
    claims = [(int(fits[:, i].argmax()), i) for i in known]
    claims += [
        (p, int(own[p])) for p in best.argsort(descending=True).tolist() if best[p] > MIN_FIT
    ]
    chosen: dict[int, int] = {}  # place -> name
    for place, name in claims:
        taken = place in chosen or name in chosen.values() or len(chosen) == MAX_OBJECTS
        if not taken and not any(
            names[name].split()[0] == names[other].split()[0]
            and tracks.together(places[place], places[at], SAME_OBJECT)
            for at, other in chosen.items()
        ):
            chosen[place] = name
    found = [names[i] for i in chosen.values()]
    return found + [names[i] for i in known if names[i] not in found]


@dataclass(frozen=True)
class _Tracks:
    """How surely [M, T] and where [M, T, 2] (x, y in pixels) M texts point at something."""

    shown: Tensor
    centres: Tensor

    def sure(self, text: int) -> Tensor:
        """The frames, bool [T], in which a text rather points at something than at nothing."""
        return self.shown[text] > 0.5

    def together(self, one: int, other: int, distance: float) -> bool:
        """Whether two texts point at nearly the same place in most frames where both do."""
        both = self.sure(one) & self.sure(other)
        gaps = (self.centres[one] - self.centres[other])[both].norm(dim=-1)
        return bool(both.any()) and float(gaps.median()) < distance


def _places(tracks: _Tracks) -> list[int]:
    """Texts, the surest first, that point at something in view, each at another place."""
    chosen: list[int] = []
    for i in tracks.shown.sum(-1).argsort(descending=True).tolist():
        seen = int(tracks.sure(i).sum()) >= SEEN_FRAMES
        if seen and not any(tracks.together(i, j, SAME_PLACE) for j in chosen):
            chosen.append(i)
    return chosen[:MAX_PLACES]


def _fits(
    model: VideoEventsModel, frames: Tensor, tracks: _Tracks, places: Sequence[int]
) -> Tensor:
    """Log-probabilities [P, M] that each name is that of the object at each place.

    They are the mean over crops where the text is surest, and very low for an empty place.
    """
    count = min(CROPS, len(frames))
    crops = []
    for place in places:
        moments = tracks.shown[place].topk(count).indices
        crops.append(crops_at(frames[moments], tracks.centres[place, moments].tolist()))
    looks = model.looks(torch.cat(crops))
    colours, shapes = (part.unflatten(0, (len(places), count)).mean(1) for part in looks)
    fits = (colours[:, :-1, None] + shapes[:, None, :-1]).flatten(1)
    empty = (colours[:, -1] > colours[:, :-1].amax(-1)) | (shapes[:, -1] > shapes[:, :-1].amax(-1))
    return fits - 100 * empty[:, None].to(fits)


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
