"""What the boxes that a detector proposes stand for, and queries fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.tools.roles import Floats
from viper.tools.second_look import BLOCKS, overlaps
from viper.tools.taught_detector import Proposals, moves_to
from viper.tuning.soft_prompts.pasting import Scene

NEAR, BARE = 0.35, 0.3
"""A box is an object's where it has at least this IoU with it; nothing's where it has less than
this with all."""

DECAY = 3e-5
"""Weight of the squared length of a query."""

RIDGE = 0.5
"""Weight of the squared length of what moves boxes, against that of a whole picture of features."""


@dataclass(frozen=True, eq=False)
class Proposed:
    """Proposals of many pictures.

    Attributes:
        features: float32 [N, D].
        shown: bool [N], whether the box is one of an object that shows the concept.
        canvas: int64 [N], which collected picture the proposal's picture was made from.
        source: int64 [N], which collected picture its object was in first.
        moves: float32 [N, 4], how its box would have to move to its object's; NaN without one.
    """

    features: Floats
    shown: NDArray[np.bool_]
    canvas: NDArray[np.int64]
    source: NDArray[np.int64]
    moves: Floats

    @classmethod
    def joined(cls, parts: Sequence[Proposed]) -> Proposed:
        """All of them, in order."""
        names = ("features", "shown", "canvas", "source", "moves")
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
    boxes = np.array([box for _, box in things], np.float32).reshape(-1, 4)
    near = overlaps(found.boxes, boxes)
    best = near.max(axis=1, initial=0.0)
    places = np.flatnonzero((best >= NEAR) | (best < BARE) & scene.whole)
    shown, source = [], []
    for place in places:
        thing = things[int(near[place].argmax())][0] if best[place] >= NEAR else None
        shown.append(thing is not None and thing.shown)
        source.append(scene.source if thing is None else thing.source)
    canvas = np.full(len(places), scene.source, np.int64)
    moves = np.full((len(places), 4), np.nan, np.float32)
    of_things = best[places] >= NEAR
    if of_things.any():
        chosen = places[of_things]
        moves[of_things] = moves_to(found.boxes[chosen], boxes[near[chosen].argmax(axis=1)])
    rows = found.features[places]
    return Proposed(rows, np.array(shown, np.bool_), canvas, np.array(source, np.int64), moves)


class Fitting:
    """Queries fitted to proposals: logistic regression on features brought to one scale.

    There are more features than proposals, so a query is sought as a sum of these; their products
    are reckoned once for all the queries of a lesson.

    Args:
        known: of all the lesson's pictures.
        blocks: places of each part of a description; each part says as much as any.
    """

    def __init__(self, known: Proposed, blocks: Sequence[int] = BLOCKS) -> None:
        import torch

        self._known = known
        features = known.features
        self._mean = features.mean(0)
        self._deviation = (features.std(0) + 1e-3) * _sides(features.shape[1], blocks)
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

    def moves(self, held: Collection[int]) -> Floats:
        """float32 [4, D + 1]: how boxes move, fitted to those that are near an object.

        Ridge regression on all of these, whatever the objects are, in pictures not held out.
        """
        import torch

        chosen = self._known.without(held)
        chosen = chosen[~np.isnan(self._known.moves[chosen, 0])]
        wanted = torch.from_numpy(self._known.moves[chosen])
        products = self._products[chosen][:, chosen]
        mean = wanted.mean(0)
        damped = products + RIDGE * torch.eye(len(chosen))
        shares = torch.linalg.solve(damped, wanted - mean)
        rows = (self._rows[chosen].T @ shares).T.numpy() / self._deviation
        shifts = mean.numpy() - rows @ self._mean
        return np.concatenate((rows, shifts[:, None]), axis=1).astype(np.float32)

    def margin(self, taught: Sequence[tuple[Collection[int], Floats, float]]) -> float:
        """The logit that parts the concept from others where a query was not fitted to them.

        A query is surer of what it was fitted to than of anything else. Taken is the cut of the
        greatest F1 score over all objects of held-out pictures, wherever they were pasted.

        Args:
            taught: for each query the pictures held out, itself and its shift.
        """
        parts, truths = [np.zeros(0, np.float32)], [np.zeros(0, np.bool_)]
        for held, query, shift in taught:
            rows = np.flatnonzero(np.isin(self._known.source, list(held)))
            parts.append(self._known.features[rows] @ query + shift)
            truths.append(self._known.shown[rows])
        logits, shown = np.concatenate(parts), np.concatenate(truths)
        if not shown.any():
            return 0.0
        order = np.argsort(-logits, kind="stable")
        hits = shown[order].cumsum()
        best = int((hits / (np.arange(1, len(hits) + 1) + shown.sum())).argmax())
        return float(logits[order[best : best + 2]].mean())


def _sides(count: int, blocks: Sequence[int]) -> Floats:
    """float32 [count]: what features are divided by, so that all of them together make length 1."""
    width = count // sum(blocks)
    sides = [np.full(places * width, (len(blocks) * places * width) ** 0.5) for places in blocks]
    return np.concatenate(sides).astype(np.float32)
