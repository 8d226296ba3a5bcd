"""How a detector of OWL's family is taught: by a query of the image tower's own width.

Such a detector has a feature for each patch, from which a head reads a box and another one
compares a class. The soft prompt of a concept is one more query: it is laid over the features
that both heads read, and says of each patch how sure its box is to show the concept. No weight
of the detector takes part or changes.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.2. Differs: there 100 vectors are set beside the
inputs of "the decoder"; OWL has none, its class head reads each patch alone, and a query is what
it takes. A query in the width of the image tower sees what the class head's own projection has
dropped. Vectors within the late layers (16 of them, or low-rank changes of all their matrices)
learned seven pictures by heart: 0.25 of the scenes of a new shape all right, the query 0.40.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.tools.boxes import NMS_IOU
from viper.tools.roles import Floats

GENERAL_NOUN = "object"
"""Stands for a concept that ended a phrase, where the rest of it is asked for alone."""

LEAST_OBJECTNESS = -6.0
"""Logit below which a box is taken for no object."""

MOST_PROPOSALS = 100
"""Boxes of a picture that are looked at, those likeliest to be objects."""


def prompt_of(query: Floats, shift: float) -> Floats:
    """float32 [1, D + 2]: a query with what is added to its products, as a soft prompt is kept."""
    return np.append(query, shift).astype(np.float32)[None]


@dataclass(frozen=True, eq=False)
class Proposals:
    """The boxes of a picture that a detector takes for objects, one an object.

    Attributes:
        boxes: float32 [N, 4], (x0, y0, x1, y1) in pixels, the likeliest object first.
        features: float32 [N, D + 1], the mean features of the patches that propose about the same
            box, and the logit of its being an object.
        members: bool [N, P], which patches these are.
    """

    boxes: Floats
    features: Floats
    members: NDArray[np.bool_]

    def best(self, scores: Floats) -> Floats:
        """float32 [N]: of each box the best of its patches' scores [P]."""
        chosen = np.where(self.members, scores[None], 0.0)
        found: Floats = chosen.max(axis=1, initial=0.0).astype(np.float32)
        return found


def proposals(encoding: Any) -> Proposals:
    """What may be an object in a picture.

    Patches beside an object propose it too. They are read together: their mean is steadier
    than what one of them says.

    Args:
        encoding: ``features`` float [P, D], ``boxes`` float32 [P, 4] in pixels and ``objectness``
            float32 [P].
    """
    boxes = encoding.boxes
    order = np.argsort(-encoding.objectness, kind="stable")
    sides = (boxes[:, 2:] - boxes[:, :2]).min(axis=1)
    order = order[(sides[order] > 0) & (encoding.objectness[order] >= LEAST_OBJECTNESS)]
    kept: list[int] = []
    near: list[NDArray[np.bool_]] = []
    while len(order) and len(kept) < MOST_PROPOSALS:
        best = int(order[0])
        same = overlaps(boxes[best : best + 1], boxes)[0] > NMS_IOU
        same[best] = True
        kept.append(best)
        near.append(same)
        order = order[~same[order]]
    members = np.array(near, np.bool_).reshape(len(kept), len(boxes))
    features = encoding.features.float().cpu().numpy()
    means = members @ features / np.maximum(members.sum(1, keepdims=True), 1)
    whole = np.concatenate((means, encoding.objectness[kept][:, None]), axis=1)
    return Proposals(boxes[kept], whole.astype(np.float32), members)


def overlaps(boxes: Floats, others: Floats) -> Floats:
    """float32 [N, M]: IoU of each box with each other one, corners in pixels."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(-1)
    areas = [(one[:, 2:] - one[:, :2]).prod(-1) for one in (boxes, others)]
    union = areas[0][:, None] + areas[1][None] - shared
    found: Floats = (shared / np.maximum(union, 1e-9)).astype(np.float32)
    return found


def sureness(features: Floats, vectors: Floats) -> Floats:
    """float32 [N]: how sure each box is to show the concept, in [0, 1].

    Args:
        features: float32 [N, D + 1] of :class:`Proposals`.
        vectors: float32 [1, D + 2], as :func:`prompt_of` gives it.

    Raises:
        ValueError: a prompt of another width.
    """
    width = features.shape[-1]
    if vectors.shape != (1, width + 1):
        raise ValueError(f"a prompt of shape {vectors.shape}; this detector's are (1, {width + 1})")
    logits = features @ vectors[0, :-1] + vectors[0, -1]
    found: Floats = (1 / (1 + np.exp(-logits.clip(-60, 60)))).astype(np.float32)
    return found


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
