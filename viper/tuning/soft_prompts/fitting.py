"""Fits queries to a tool's features of regions in pictures. Regions are boxes or segments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from viper.models.vision.roles import Floats
from viper.tuning.soft_prompts.pasting import MaskedPicture

# Weight of the squared length of a query.
DECAY = 3e-5

# A query, float32 [D], and its shift.
Query = tuple[Floats, float]


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of many pictures.

    Attributes:
        features: float32 [N, D], the tool's features of each region.
        shown: bool [N], whether the region is an object that shows the concept.
        canvas: int64 [N], index of the collected picture that is the background of the region's
            picture.
        source: int64 [N], index of the collected picture that the region's object comes from.
    """

    features: Floats
    shown: NDArray[np.bool_]
    canvas: NDArray[np.int64]
    source: NDArray[np.int64]

    @classmethod
    def of(
        cls, features: Floats, near: Floats, scene: MaskedPicture, same: float, bare: float
    ) -> tuple[Regions, NDArray[np.int64]]:
        """Build the unambiguous regions of a picture. Return them with their indices.

        Args:
            features: float32 [N, D].
            near: float [N, M], IoU of each region with the objects of
                :meth:`MaskedPicture.counted`.
            same: least IoU of a region with an object to count as the object.
            bare: a region with a lower IoU with every object counts as background.
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
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def without(self, held: Collection[int]) -> NDArray[np.int64]:
        """Return int64 [M]: the indices of the regions that are independent of held-out pictures.

        Their objects come from other pictures, and their backgrounds are other pictures. An object
        of a held-out picture may still be a neighbour, but its label is not used.
        """
        chosen = ~np.isin(self.canvas, list(held)) & ~np.isin(self.source, list(held))
        return np.flatnonzero(chosen)

    def held(self, held: Collection[int]) -> NDArray[np.int64]:
        """Return int64 [M]: the indices of objects that come from the held-out pictures."""
        return np.flatnonzero(np.isin(self.source, list(held)))


class Fitting:
    """Logistic regression on standardised features.

    There are more features than regions, so a query is expressed as a weighted sum of the regions'
    features. Their inner products are computed once for all queries.

    Args:
        regions: regions of all pictures of the training data.
        widths: widths of the parts of a feature vector, D in total. Each part gets equal weight.
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

        L-BFGS minimises the logistic loss of all regions that are independent of the held-out
        pictures. The concept's regions are weighted by the square root of the class ratio.

        Returns:
            float32 [D] and a number, for features that are not standardised.
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

    def margin(self, fits: Sequence[tuple[Collection[int], Floats, float]]) -> float:
        """Return the logit that best separates the concept from others on held-out objects.

        Held-out objects are used because a query gives higher logits to the objects it was fitted
        to. The logit has the greatest F1 score over all objects of held-out pictures, wherever
        they were pasted.

        Args:
            fits: for each query the held-out pictures, the query and its shift.
        """
        parts, truths = [np.zeros(0, np.float32)], [np.zeros(0, np.bool_)]
        for held, query, shift in fits:
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
