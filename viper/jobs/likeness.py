"""Whether pictures look alike, by their colors: to notice strange inputs, and to spread labels.

`Likeness` holds the labelled pictures; `representatives` chooses the pictures to label first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from viper.models.media import Media, media_from

# Side of the thumbnails whose colors say whether pictures are alike.
_SIDE = 4

# Labelled pictures as far from all others as the farthest 5 % of them are not yet unusual.
_FAR = 0.95


@dataclass(frozen=True)
class Likeness:
    """Features of the labelled pictures, to notice inputs unlike them.

    Attributes:
        features: of each, float [N, P].
        limit: distance to the nearest other one that 95 % of them keep.
    """

    features: tuple[tuple[float, ...], ...] = ()
    limit: float = 0.0

    @classmethod
    def of(cls, features: Any) -> Likeness:
        """Build the likeness to pictures, by their features, float64 [N, P]."""
        distances = np.abs(features[:, None] - features[None]).mean(2)
        np.fill_diagonal(distances, np.inf)
        limit = float(np.quantile(distances.min(1), _FAR))
        return cls(tuple(map(tuple, features.tolist())), round(limit, 4))

    def unlike(self, media: Media) -> bool:
        """Return whether a picture is farther from all labelled ones than those are."""
        known = np.array(self.features)
        distances = np.abs(known - np.array(pixel_features(media))).mean(1)
        return bool(distances.min() > self.limit)


def representatives(paths: Sequence[Path], count: int, seed: int) -> list[Path]:
    """Return pictures that differ from each other: the nearest ones to the means of clusters.

    Raises:
        MediaError: a picture cannot be read.
    """
    from scipy.cluster.vq import kmeans2

    features = np.array([pixel_features(media_from(path)) for path in paths])
    clusters = min(count, len(np.unique(features, axis=0)))
    means, _ = kmeans2(features, clusters, minit="++", seed=seed)
    distances = ((features[:, None] - means[None]) ** 2).sum(2)
    chosen = list(dict.fromkeys(distances.argmin(0).tolist()))
    # clusters of equal pictures name one of them twice
    rest = [index for index in range(len(paths)) if index not in chosen]
    return [paths[index] for index in sorted([*chosen, *rest[: count - len(chosen)]])]


def pixel_features(media: Media) -> list[float]:
    """Return the mean colors of a grid of 4 x 4 fields of the first picture, 48 shares."""
    rows = np.array_split(first_picture(media), _SIDE)
    fields = [field for row in rows for field in np.array_split(row, _SIDE, axis=1)]
    means = [each.reshape(-1, 3).mean(0) / 255 if each.size else np.zeros(3) for each in fields]
    return [round(float(value), 3) for mean in means for value in mean]


def first_picture(media: Media) -> Any:
    """Return the first picture or frame, uint8 [H, W, 3]."""
    return media.images[0] if media.images else media.pixels("video0#0")
