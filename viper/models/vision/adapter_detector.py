"""How a detector of OWL's family is taught: it looks again, closely, at what may be an object.

In the picture as a whole an object is seen by a few patches, which do not tell what is new in it
(the stripes, the edges of a pyramid). So each box that the detector takes for an object's is cut
out and shown to its image tower once more, as large as a picture. The soft prompt of a concept is
a query over what the tower's middle layer and its last one say of the cut-out, place by place, and
over how much the patches of each differ from each other, which is what a texture is. No weight of
the detector takes part or changes.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.2. Differs: there 100 vectors are set beside the
inputs of "the decoder"; OWL has none, its class head reads each patch alone. What was tried
instead, as the share of 40 validation scenes that are all right (seed 0): a query over the
patches of the whole picture, striped 0.15, white 0.2, pyramid 0.38, pink 0.95; vectors within the
late layers (16 of them, or low-rank changes of all their matrices) learned seven pictures by heart,
pyramid 0.25. A second look at the true boxes knows 0.78, 0.95, 0.53 and 1.00.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from viper.models.vision.roles import Floats
from viper.models.vision.second_look import PLACES
from viper.models.vision.soft_prompts import AdaptableDetector

GENERAL_NOUN = "object"
"""Stands for a concept that ended a phrase, where the rest of it is asked for alone."""

MOST_MOVED = 0.5
"""How far, as a share of its sides, and by which logarithm, a box is moved and sized at most."""

PARTS = 5
"""What a prompt says of a box: how sure it is, and four numbers by which it moves."""


def prompt_of(query: Floats, shift: float, moves: Floats | None = None) -> Floats:
    """float32 [PARTS * (PLACES + 1), W] as a soft prompt is kept, in the image tower's own width W.

    For each part a vector for each place of a cut-out, which the two deviations of
    ``BLOCKS`` stand after as two places more, and one that is the
    part's shift throughout.

    Args:
        query: float32 [D], D = PLACES * W, and ``shift``, which is added to its products.
        moves: float32 [4, D + 1] in the same manner, the shift last: how the box's centre moves,
            as a share of its sides, and the logarithms of by what they grow; None: not at all.
    """
    first = np.append(query, shift)[None]
    whole = np.concatenate((first, np.zeros((4, first.shape[1])) if moves is None else moves))
    parts = whole[:, :-1].reshape(PARTS, PLACES, -1)
    shifts = np.broadcast_to(whole[:, -1:, None], (PARTS, 1, parts.shape[-1]))
    packed = np.concatenate((parts, shifts), axis=1).reshape(PARTS * (PLACES + 1), -1)
    return packed.astype(np.float32)


def _parts_of(vectors: Floats, features: Floats) -> Floats:
    """float32 [N, PARTS]: a prompt's products with features, the shifts added.

    Raises:
        ValueError: a prompt of another detector.
    """
    expected = (PARTS * (PLACES + 1), features.shape[1] // PLACES)
    if vectors.shape != expected:
        raise ValueError(f"a prompt of shape {vectors.shape}; this detector's are {expected}")
    parts = vectors.reshape(PARTS, PLACES + 1, -1)
    queries, shifts = parts[:, :-1].reshape(PARTS, -1), parts[:, -1].mean(axis=1)
    products: Floats = features @ queries.T + shifts
    return products


@dataclass(frozen=True, eq=False)
class Proposals:
    """The boxes of a picture that a detector takes for objects, one an object.

    Attributes:
        boxes: float32 [N, 4], (x0, y0, x1, y1) in pixels, the likeliest object first.
        features: float32 [N, D], what the image tower says of the cut-outs, place by place.
        members: bool [N, P], the patches of the picture that propose about the same box.
    """

    boxes: Floats
    features: Floats
    members: NDArray[np.bool_]

    def best(self, scores: Floats) -> Floats:
        """float32 [N]: of each box the best of its patches' scores [P]."""
        chosen = np.where(self.members, scores[None], 0.0)
        found: Floats = chosen.max(axis=1, initial=0.0).astype(np.float32)
        return found


@runtime_checkable
class ProposalDetector(AdaptableDetector, Protocol):
    """What a tuner needs of a detector beside what the tool functions need."""

    def proposals(self, encoding: Any) -> Proposals:
        """What may be an object in a picture, looked at again."""
        ...


def sureness(found: Proposals, vectors: Floats) -> Floats:
    """float32 [N]: how sure each box is to show the concept, in [0, 1].

    Args:
        vectors: float32, as :func:`prompt_of` gives them.

    Raises:
        ValueError: a prompt of another detector.
    """
    logits = _parts_of(vectors, found.features)[:, 0]
    sure: Floats = (1 / (1 + np.exp(-logits.clip(-60, 60)))).astype(np.float32)
    return sure


def moved(found: Proposals, vectors: Floats, size: tuple[int, int]) -> Floats:
    """float32 [N, 4]: the boxes where a prompt sees the objects, clipped to the picture.

    A box head draws boxes of what it knows; what is new has other outlines.

    Args:
        vectors: float32, as :func:`prompt_of` gives them.
        size: (height, width) in pixels.

    Source: Girshick et al. 2014 (R-CNN), appendix C, whose parameters of a box these are.
    """
    moves = _parts_of(vectors, found.features)[:, 1:].clip(-MOST_MOVED, MOST_MOVED)
    sides = found.boxes[:, 2:] - found.boxes[:, :2]
    centres = (found.boxes[:, :2] + found.boxes[:, 2:]) / 2 + moves[:, :2] * sides
    halves = sides * np.exp(moves[:, 2:]) / 2
    corners = np.concatenate((centres - halves, centres + halves), axis=1)
    limit = np.array([size[1], size[0], size[1], size[0]], np.float32)
    boxes: Floats = corners.clip(0, limit).astype(np.float32)
    return boxes


def moves_to(boxes: Floats, wanted: Floats) -> Floats:
    """float32 [N, 4]: what :func:`moved` would have to do to boxes for them to be the others."""
    sides, goal = boxes[:, 2:] - boxes[:, :2], wanted[:, 2:] - wanted[:, :2]
    shift = (wanted[:, :2] + wanted[:, 2:] - boxes[:, :2] - boxes[:, 2:]) / 2 / sides
    found: Floats = np.concatenate((shift, np.log(goal / sides)), axis=1).astype(np.float32)
    return found.clip(-MOST_MOVED, MOST_MOVED)


def rest_of(phrase: str, concepts: Collection[str]) -> str:
    """What a phrase asks for beside the concepts it names.

    ``red pyramid`` leaves ``red object``, ``striped cube`` leaves ``cube``, ``pyramid`` ``object``.
    """
    rest = " ".join(phrase.casefold().split())
    ended = False
    for concept in sorted(concepts, key=len, reverse=True):
        named = re.compile(rf"(?<!\w){re.escape(concept)}(?:e?s)?(?!\w)")
        ended = ended or re.search(rf"{named.pattern}$", rest) is not None
        rest = named.sub(" ", rest)
    words = rest.split()
    if ended or not words:
        words.append(GENERAL_NOUN)
    return " ".join(words)


def picture_feature(features: Any) -> Floats:
    """float32 [D]: the mean of a picture's patches [P, D], by which its prompts are found again."""
    mean: Floats = features.float().mean(0).cpu().numpy()
    return mean
