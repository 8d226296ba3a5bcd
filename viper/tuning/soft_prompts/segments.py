"""What segments of pictures stand for, and how well they match what they should."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viper.tools.roles import Floats, Mask, Segment
from viper.tuning.soft_prompts.fitting import Regions
from viper.tuning.soft_prompts.pasting import Scene

SAME, NOTHING = 0.5, 0.4
"""A segment is an object's where their masks have at least this IoU; nothing's where it has less
than this with all."""


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


def segments_of(found: Sequence[Segment], features: Floats, scene: Scene) -> Regions:
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
    return Regions(features[places], np.array(shown, np.bool_), canvas, np.array(source, np.int64))


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
