"""What patches of pictures stand for, and a query fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.tools.roles import Floats
from viper.tools.taught_detector import overlaps, proposals
from viper.tuning.soft_prompts.pasting import Scene

NEAR, BARE = 0.5, 0.4
"""A box is an object's where it has at least this IoU with it; nothing's where it has less than
this with all."""

DECAY = 0.01
"""Weight of the squared length of a query."""


@dataclass(frozen=True, eq=False)
class Patches:
    """Patches of many pictures.

    Attributes:
        features: float32 [N, D].
        shown: bool [N], whether the patch stands for an object that shows the concept.
        canvas: int64 [N], which collected picture the patch's picture was made from.
        source: int64 [N], which collected picture its object was in first.
    """

    features: Floats
    shown: NDArray[np.bool_]
    canvas: NDArray[np.int64]
    source: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence[Patches]) -> Patches:
        """All of them, in order."""
        names = ("features", "shown", "canvas", "source")
        return cls(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))

    def without(self, held: Collection[int]) -> Patches:
        """Those that neither stand for an object of some pictures nor are in what is made of them.

        An object of theirs may still be a neighbour in another picture; what it is called there
        plays no part.
        """
        chosen = ~np.isin(self.canvas, list(held)) & ~np.isin(self.source, list(held))
        return Patches(
            self.features[chosen], self.shown[chosen], self.canvas[chosen], self.source[chosen]
        )


def patches_of(encoding: Any, scene: Scene) -> Patches:
    """The boxes that a detector proposes in a picture, as far as it is clear what they show."""
    found, things = proposals(encoding), scene.counted()
    near = overlaps(found.boxes, np.array([box for _, box in things], np.float32).reshape(-1, 4))
    best = near.max(axis=1, initial=0.0)
    places = np.flatnonzero((best >= NEAR) | (best < BARE) & scene.whole)
    shown, source = [], []
    for place in places:
        thing = things[int(near[place].argmax())][0] if best[place] >= NEAR else None
        shown.append(thing is not None and thing.shown)
        source.append(scene.source if thing is None else thing.source)
    canvas = np.full(len(places), scene.source, np.int64)
    rows = found.features[places]
    return Patches(rows, np.array(shown, np.bool_), canvas, np.array(source, np.int64))


def fitted(
    patches: Patches, steps: int, rate: float, on_step: Callable[[], None]
) -> tuple[Floats, float]:
    """A query and a shift whose logits part the concept's patches from all others.

    Adam on the logistic loss of all patches; the rarer side weighs more, by the root of the ratio.

    Returns:
        float32 [D] and a number, for features as they come.
    """
    import torch
    from torch.nn import functional

    features = torch.from_numpy(patches.features)
    mean, deviation = features.mean(0), features.std(0) + 1e-3
    rows, shown = (features - mean) / deviation, torch.from_numpy(patches.shown).float()
    query = torch.zeros(rows.shape[1], requires_grad=True)
    shift = torch.zeros(1, requires_grad=True)
    rarity = ((1 - shown).sum() / shown.sum().clamp(min=1)).sqrt()
    optimiser = torch.optim.Adam([query, shift], lr=rate)
    for _ in range(steps):
        loss = functional.binary_cross_entropy_with_logits(
            rows @ query + shift, shown, pos_weight=rarity
        )
        optimiser.zero_grad()
        (loss + DECAY / 2 * query.square().sum()).backward()
        optimiser.step()
        on_step()
    with torch.no_grad():
        plain = query / deviation
        total = float(shift - plain @ mean)
    return plain.numpy(), total
