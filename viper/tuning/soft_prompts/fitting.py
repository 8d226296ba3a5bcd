"""Queries fitted to what a tool says of regions of pictures: boxes or segments, all alike."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from viper.models.vision.roles import Floats
from viper.tuning.soft_prompts.pasting import MaskedPicture

DECAY = 3e-5
"""Weight of the squared length of a query."""

Query = tuple[Floats, float]
"""float32 [D] and a shift."""


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of many pictures.

    Attributes:
        features: float32 [N, D], what the tool says of each.
        shown: bool [N], whether the region is an object that shows the concept.
        canvas: int64 [N], which collected picture the region's picture was made from.
        source: int64 [N], which collected picture its object was in first.
    """

    features: Floats
    shown: NDArray[np.bool_]
    canvas: NDArray[np.int64]
    source: NDArray[np.int64]

    @classmethod
    def of(
        cls, features: Floats, near: Floats, scene: MaskedPicture, same: float, bare: float
    ) -> tuple[Regions, NDArray[np.int64]]:
        """Build the regions of a picture whose content is clear, with their indices.

        Args:
            features: float32 [N, D].
            near: float [N, M], IoU of each with the objects of :meth:`MaskedPicture.counted`.
            same: a region is an object's where their IoU is at least this;
            bare: nothing's where it has less than this with all.
        """
        things = [thing for thing, _ in scene.counted()]
        best = near.max(axis=1, initial=0.0)
        places = np.flatnonzero((best >= same) | (best < bare) & scene.whole)
        positive, source = [], []
        for place in places:
            thing = things[int(near[place].argmax())] if best[place] >= same else None
            positive.append(thing is not None and thing.shown)
            source.append(scene.source if thing is None else thing.source)
        canvas = np.full(len(places), scene.source, np.int64)
        shows, sources = np.array(positive, np.bool_), np.array(source, np.int64)
        return Regions(features[places], shows, canvas, sources), places

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join all regions, in order."""
        names = [one.name for one in fields(cls)]
        return cls(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))

    def without(self, held: Collection[int]) -> NDArray[np.int64]:
        """Return int64 [M]: the indices of regions in which the held-out pictures have no part.

        Neither is the region an object that was in one of them first, nor is the picture made of
        one. An object of theirs may still be a neighbour; what it is called plays no part.
        """
        chosen = ~np.isin(self.canvas, list(held)) & ~np.isin(self.source, list(held))
        return np.flatnonzero(chosen)

    def held(self, held: Collection[int]) -> NDArray[np.int64]:
        """Return int64 [M]: the indices of objects that come from the held-out pictures."""
        return np.flatnonzero(np.isin(self.source, list(held)))


class Fitting:
    """Logistic regression on features brought to one scale.

    There are more features than regions, so a query is sought as a sum of these; their products
    are reckoned once for all the queries of a lesson.

    Args:
        known: of all the lesson's pictures.
        widths: of the parts of a description, D in all; each part says as much as any.
    """

    def __init__(self, regions: Regions, widths: Sequence[int]) -> None:
        import torch

        self.known = regions
        features = regions.features
        sides = [np.full(width, (len(widths) * width) ** 0.5, np.float32) for width in widths]
        self.mean = features.mean(0)
        self.deviation = (features.std(0) + 1e-3) * np.concatenate(sides)
        self.rows = torch.from_numpy((features - self.mean) / self.deviation)
        self.products = self.rows @ self.rows.T

    def query(
        self, held: Collection[int], steps: int, rate: float, on_step: Callable[[], None]
    ) -> Query:
        """Fit a query and a shift whose logits separate the concept's regions from all others.

        L-BFGS on the logistic loss of all regions of pictures not held out; the rarer side
        weighs more, by the root of the ratio.

        Returns:
            float32 [D] and a number, for features as they come.
        """
        import torch
        from torch.nn import functional

        chosen = torch.from_numpy(self.known.without(held))
        positive = torch.from_numpy(self.known.shown)[chosen].float()
        products = self.products[chosen][:, chosen]
        shares = torch.zeros(len(chosen), requires_grad=True)
        shift = torch.zeros(1, requires_grad=True)
        rarity = ((1 - positive).sum() / positive.sum().clamp(min=1)).sqrt()
        optimiser = torch.optim.LBFGS(
            [shares, shift], lr=rate, max_iter=1, line_search_fn="strong_wolfe"
        )

        def loss() -> Any:
            optimiser.zero_grad()
            sums = products @ shares
            value = functional.binary_cross_entropy_with_logits(
                sums + shift, positive, pos_weight=rarity
            )
            value = value + DECAY / 2 * shares @ sums
            value.backward()
            return value

        for _ in range(steps):
            optimiser.step(loss)
            on_step()
        with torch.no_grad():
            query = (self.rows[chosen].T @ shares).numpy() / self.deviation
            total = float(shift) - float(query @ self.mean)
        return query.astype(np.float32), total

    def margin(self, taught: Sequence[tuple[Collection[int], Floats, float]]) -> float:
        """Return the logit that separates the concept from others for queries fitted without them.

        A query is surer of what it was fitted to than of anything else. Taken is the cut of the
        greatest F1 score over all objects of held-out pictures, wherever they were pasted.

        Args:
            taught: for each query the pictures held out, itself and its shift.
        """
        parts, truths = [np.zeros(0, np.float32)], [np.zeros(0, np.bool_)]
        for held, query, shift in taught:
            rows = self.known.held(held)
            parts.append(self.known.features[rows] @ query + shift)
            truths.append(self.known.shown[rows])
        logits, truth = np.concatenate(parts), np.concatenate(truths)
        if not truth.any():
            return 0.0
        order = np.argsort(-logits, kind="stable")
        hits = truth[order].cumsum()
        best = int((hits / (np.arange(1, len(hits) + 1) + truth.sum())).argmax())
        return float(logits[order[best : best + 2]].mean())
