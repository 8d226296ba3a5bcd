"""What segments of pictures stand for, and a query fitted to their descriptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viper.tools.roles import Floats, Mask, Segment
from viper.tuning.soft_prompts.pasting import Scene

SAME, NOTHING = 0.5, 0.4
"""A segment is an object's where their masks have at least this IoU; nothing's where it has less
than this with all."""

VIEWS = 4
"""Parts of a description that are tried, see :func:`views`."""

DECAY = 0.05
"""Weight of the squared length of a query."""


@dataclass(frozen=True, eq=False)
class Described:
    """Segments of many pictures.

    Attributes:
        features: float32 [N, D].
        shown: bool [N], whether the segment is an object that shows the concept.
        canvas: int64 [N], which collected picture the segment's picture was made from.
        source: int64 [N], which collected picture its object was in first.
    """

    features: Floats
    shown: NDArray[np.bool_]
    canvas: NDArray[np.int64]
    source: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence[Described]) -> Described:
        """All of them, in order."""
        names = ("features", "shown", "canvas", "source")
        return cls(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))

    def without(self, held: Collection[int]) -> Described:
        """Those that neither are objects of some pictures nor stand in what is made of them."""
        chosen = ~np.isin(self.canvas, list(held)) & ~np.isin(self.source, list(held))
        return Described(
            self.features[chosen], self.shown[chosen], self.canvas[chosen], self.source[chosen]
        )


def views(widths: Sequence[int]) -> list[NDArray[np.int64]]:
    """Which columns of a description a query may look at: what concepts are likely to differ in.

    The pixels alone; with the finest feature map; state and outline; everything.

    Args:
        widths: of a description's parts, see :class:`viper.tools.taught_segmenter.Descriptions`.
    """
    ends = np.cumsum(widths)
    columns = [np.arange(end - width, end) for end, width in zip(ends, widths, strict=True)]
    chosen = [(2,), (2, 3), (0, 1), range(len(widths))]
    return [
        np.concatenate([columns[part] for part in some if part < len(columns)]) for some in chosen
    ]


def mask_ious(masks: Sequence[Mask], others: Sequence[Mask]) -> Floats:
    """float32 [N, M]: intersection over union of each mask with each other one."""
    if not masks or not others:
        return np.zeros((len(masks), len(others)), np.float32)
    rows, columns = (
        np.stack(some).reshape(len(some), -1).astype(np.float32) for some in (masks, others)
    )
    shared = rows @ columns.T
    union = rows.sum(1)[:, None] + columns.sum(1)[None] - shared
    found: Floats = (shared / np.maximum(union, 1)).astype(np.float32)
    return found


def segments_of(found: Sequence[Segment], features: Floats, scene: Scene) -> Described:
    """The segments found in a picture, as far as it is clear what they show.

    Args:
        features: float32 [N, D] of the segments.
    """
    things = [thing for thing, _ in scene.counted()]
    near = mask_ious([one.mask for one in found], [thing.mask for thing in things])
    best = near.max(axis=1, initial=0.0)
    places = np.flatnonzero((best >= SAME) | (best < NOTHING) & scene.whole)
    shown, source = [], []
    for place in places:
        thing = things[int(near[place].argmax())] if best[place] >= SAME else None
        shown.append(thing is not None and thing.shown)
        source.append(scene.source if thing is None else thing.source)
    canvas = np.full(len(places), scene.source, np.int64)
    return Described(
        features[places], np.array(shown, np.bool_), canvas, np.array(source, np.int64)
    )


def fitted(
    rows: Described,
    columns: NDArray[np.int64],
    steps: int,
    rate: float,
    on_step: Callable[[], None],
) -> tuple[Floats, float]:
    """A query and a shift whose logits part the concept's segments from all others.

    Adam on the logistic loss of all segments; the rarer side weighs more, by the root of the ratio.

    Args:
        columns: which of the features the query looks at; it is 0 elsewhere.

    Returns:
        float32 [D] and a number, for descriptions as they come.
    """
    import torch
    from torch.nn import functional

    features = torch.from_numpy(rows.features[:, columns])
    mean, deviation = features.mean(0), features.std(0) + 1e-3
    scaled, shown = (features - mean) / deviation, torch.from_numpy(rows.shown).float()
    query = torch.zeros(scaled.shape[1], requires_grad=True)
    shift = torch.zeros(1, requires_grad=True)
    rarity = ((1 - shown).sum() / shown.sum().clamp(min=1)).sqrt()
    optimiser = torch.optim.Adam([query, shift], lr=rate)
    for _ in range(steps):
        loss = functional.binary_cross_entropy_with_logits(
            scaled @ query + shift, shown, pos_weight=rarity
        )
        optimiser.zero_grad()
        (loss + DECAY / 2 * query.square().sum()).backward()
        optimiser.step()
        on_step()
    with torch.no_grad():
        plain = query / deviation
        total = float(shift - plain @ mean)
    whole = np.zeros(rows.features.shape[1], np.float32)
    whole[columns] = plain.numpy()
    return whole, total


def f1(found: Sequence[Mask], wanted: Sequence[Mask], ignored: Sequence[Mask] = ()) -> float:
    """The F1 score of masks, matched one to one at IoU of :data:`SAME`; 1 where both are none.

    Args:
        ignored: masks that may be found or not.
    """
    near, beside = mask_ious(found, wanted), mask_ious(found, ignored)
    free, hits, false = set(range(len(wanted))), 0, 0
    for place in range(len(found)):
        fit = [other for other in free if near[place, other] >= SAME]
        if fit:
            free.remove(max(fit, key=lambda other: near[place, other]))
            hits += 1
        elif beside[place].max(initial=0.0) < SAME:
            false += 1
    total = hits + false + len(wanted)
    return 1.0 if total == 0 else 2 * hits / total
