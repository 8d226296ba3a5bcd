"""What the boxes that a detector proposes stand for, and how they move to where objects are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from viper.tools.roles import Floats
from viper.tools.second_look import BLOCKS, PLACES, overlaps
from viper.tools.taught_detector import Proposals, moves_to
from viper.tuning.soft_prompts.fitting import Fitting, Regions
from viper.tuning.soft_prompts.pasting import Scene

NEAR, BARE = 0.35, 0.3
"""A box is an object's where it has at least this IoU with it; nothing's where it has less than
this with all."""

RIDGE = 0.5
"""Weight of the squared length of what moves boxes, against that of a whole picture of features."""


@dataclass(frozen=True, eq=False)
class Proposed(Regions):
    """Proposals of many pictures.

    Attributes:
        moves: float32 [N, 4], how its box would have to move to its object's; NaN without one.
    """

    moves: Floats


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


def widths_of(features: int) -> list[int]:
    """Widths of the parts of a description of a box that is so wide in all."""
    return [places * features // PLACES for places in BLOCKS]


def fitted_moves(fitting: Fitting, known: Proposed, held: Collection[int]) -> Floats:
    """float32 [4, D + 1]: how boxes move, fitted to those that are near an object.

    Ridge regression on all of these, whatever the objects are, in pictures not held out.
    """
    import torch

    chosen = known.without(held)
    chosen = chosen[~np.isnan(known.moves[chosen, 0])]
    wanted = torch.from_numpy(known.moves[chosen])
    products = fitting.products[chosen][:, chosen]
    mean = wanted.mean(0)
    damped = products + RIDGE * torch.eye(len(chosen))
    shares = torch.linalg.solve(damped, wanted - mean)
    rows = (fitting.rows[chosen].T @ shares).T.numpy() / fitting.deviation
    shifts = mean.numpy() - rows @ fitting.mean
    return np.concatenate((rows, shifts[:, None]), axis=1).astype(np.float32)
