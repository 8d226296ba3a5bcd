"""What the boxes that a detector proposes stand for, and queries fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.tools.roles import Floats
from viper.tools.taught_detector import Proposals, overlaps
from viper.tuning.soft_prompts.pasting import Scene

NEAR, BARE = 0.5, 0.4
"""A box is an object's where it has at least this IoU with it; nothing's where it has less than
this with all."""

DECAY = 3e-4
"""Weight of the squared length of a query."""


@dataclass(frozen=True, eq=False)
class Proposed:
    """Proposals of many pictures.

    Attributes:
        features: float32 [N, D].
        shown: bool [N], whether the box is one of an object that shows the concept.
        canvas: int64 [N], which collected picture the proposal's picture was made from.
        source: int64 [N], which collected picture its object was in first.
    """

    features: Floats
    shown: NDArray[np.bool_]
    canvas: NDArray[np.int64]
    source: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence[Proposed]) -> Proposed:
        """All of them, in order."""
        names = ("features", "shown", "canvas", "source")
        return cls(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))

    def without(self, held: Collection[int]) -> NDArray[np.int64]:
        """int64 [M]: the places of those that some pictures have no part in.

        Neither is the box one of an object that was in one of them first, nor is the picture made
        of one. An object of theirs may still be a neighbour; what it is called plays no part.
        """
        chosen = ~np.isin(self.canvas, list(held)) & ~np.isin(self.source, list(held))
        return np.flatnonzero(chosen)


def proposed(found: Proposals, scene: Scene) -> Proposed:
    """The boxes that a detector proposes in a picture, as far as it is clear what they show."""
    things = scene.counted()
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
    return Proposed(rows, np.array(shown, np.bool_), canvas, np.array(source, np.int64))


class Fitting:
    """Queries fitted to proposals: logistic regression on features brought to one scale.

    There are more features than proposals, so a query is sought as a sum of these; their products
    are reckoned once for all the queries of a lesson.

    Args:
        known: of all the lesson's pictures.
    """

    def __init__(self, known: Proposed) -> None:
        import torch

        self._known = known
        features = known.features
        self._mean = features.mean(0)
        self._deviation = (features.std(0) + 1e-3) * features.shape[1] ** 0.5
        self._rows = torch.from_numpy((features - self._mean) / self._deviation)
        self._products = self._rows @ self._rows.T

    def query(
        self, held: Collection[int], steps: int, rate: float, on_step: Callable[[], None]
    ) -> tuple[Floats, float]:
        """A query and a shift whose logits part the concept's proposals from all others.

        L-BFGS on the logistic loss of all that pictures not held out propose; the rarer side
        weighs more, by the root of the ratio.

        Returns:
            float32 [D] and a number, for features as they come.
        """
        import torch
        from torch.nn import functional

        chosen = torch.from_numpy(self._known.without(held))
        shown = torch.from_numpy(self._known.shown)[chosen].float()
        products = self._products[chosen][:, chosen]
        shares = torch.zeros(len(chosen), requires_grad=True)
        shift = torch.zeros(1, requires_grad=True)
        rarity = ((1 - shown).sum() / shown.sum().clamp(min=1)).sqrt()
        optimiser = torch.optim.LBFGS(
            [shares, shift], lr=rate, max_iter=1, line_search_fn="strong_wolfe"
        )

        def loss() -> Any:
            optimiser.zero_grad()
            sums = products @ shares
            value = functional.binary_cross_entropy_with_logits(
                sums + shift, shown, pos_weight=rarity
            )
            value = value + DECAY / 2 * shares @ sums
            value.backward()
            return value

        for _ in range(steps):
            optimiser.step(loss)
            on_step()
        with torch.no_grad():
            query = (self._rows[chosen].T @ shares).numpy() / self._deviation
            total = float(shift) - float(query @ self._mean)
        return query.astype(np.float32), total
