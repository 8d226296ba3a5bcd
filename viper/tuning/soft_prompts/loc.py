"""Teaches a detector of OWL's family a concept: a query over the boxes that it proposes.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.2. Differs: all other objects in the
pictures, whatever they are called, and boxes of nothing are the negatives, instead of 13 names that
are absent: a query is compared with places, not with names. There is no loss of boxes, since the
box head reads features that nothing changes. The logistic loss is taken without the focal weight
that a detector needs where nearly all are easy. What is shared with the segmenter:
:mod:`viper.tuning.soft_prompts.annotated`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viper.agreement import box_iou
from viper.models.vision.adapter_detector import (
    ProposalDetector,
    Proposals,
    moves_between,
    prompt_of,
)
from viper.models.vision.boxes import overlaps
from viper.models.vision.roles import Detection, Floats
from viper.models.vision.second_look import BLOCKS, PLACES
from viper.models.vision.soft_prompts import LearnedPrompt
from viper.tuning.soft_prompts.annotated import AnnotatedTuner, TrainingSession, f1
from viper.tuning.soft_prompts.fitting import Fitting, Query, Regions
from viper.tuning.soft_prompts.pasting import MaskedPicture

CUT = 0.3
"""Score of what is as likely the concept as not: where profiles begin to keep boxes."""

SAME_BOX = 0.6
"""Least IoU of a box and the object that it finds, where a prompt is judged."""

MOST_FALSE = 0.5
"""Share of held-out pictures without the concept in which a prompt may find it."""

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


def proposed(proposals: Proposals, scene: MaskedPicture) -> Proposed:
    """Return the boxes that a detector proposes in a picture, where their content is clear."""
    boxes = np.array([box for _, box in scene.counted()], np.float32).reshape(-1, 4)
    near = overlaps(proposals.boxes, boxes)
    rows, places = Regions.of(proposals.features, near, scene, NEAR, BARE)
    moves = np.full((len(places), 4), np.nan, np.float32)
    of_things = near.max(axis=1, initial=0.0)[places] >= NEAR
    if of_things.any():
        chosen = places[of_things]
        moves[of_things] = moves_between(
            proposals.boxes[chosen], boxes[near[chosen].argmax(axis=1)]
        )
    return Proposed(rows.features, rows.shown, rows.canvas, rows.source, moves)


def fitted_moves(fitting: Fitting, regions: Proposed, held: Collection[int]) -> Floats:
    """Return float32 [4, D + 1]: the movement of boxes, fitted to those near an object.

    Ridge regression on all of these, whatever the objects are, in pictures not held out.
    """
    import torch

    chosen = regions.without(held)
    chosen = chosen[~np.isnan(regions.moves[chosen, 0])]
    targets = torch.from_numpy(regions.moves[chosen])
    products = fitting.products[chosen][:, chosen]
    mean = targets.mean(0)
    damped = products + RIDGE * torch.eye(len(chosen))
    shares = torch.linalg.solve(damped, targets - mean)
    rows = (fitting.rows[chosen].T @ shares).T.numpy() / fitting.deviation
    shifts = mean.numpy() - rows @ fitting.mean
    return np.concatenate((rows, shifts[:, None]), axis=1).astype(np.float32)


class _LocSession(TrainingSession[Proposed]):
    pictures, batch, salt = 200, 4, 21

    def look(self, backend: Any, scenes: Sequence[MaskedPicture]) -> list[tuple[Any, Proposals]]:
        encodings = backend.encode([scene.pixels for scene in scenes])
        return [(encoding, backend.proposals(encoding)) for encoding in encodings]

    def regions(self, detections: Proposals, scene: MaskedPicture) -> Proposed:
        return proposed(detections, scene)

    def fitting(self, regions: Proposed) -> Fitting:
        self._known = regions
        return Fitting(regions, [places * regions.features.shape[1] // PLACES for places in BLOCKS])

    def prompts(self, fitting: Fitting, queries: Sequence[Query]) -> Iterator[Floats]:
        taught = [(held, *one) for held, one in zip(self.helds, queries, strict=True)]
        cut = float(np.log(CUT / (1 - CUT))) - fitting.margin(taught)
        for held, query, shift in taught:
            yield prompt_of(query, shift + cut, fitted_moves(fitting, self._known, held))

    def answers(
        self, backend: Any, encodings: Sequence[Any], vectors: Floats
    ) -> tuple[list[Any], list[Any]]:
        concept = self.lesson.concept
        taught = [LearnedPrompt(concept, vectors)]
        return (
            [backend.detect(one, [concept])[0] for one in encodings],
            [backend.detect_adapted(one, concept, taught) for one in encodings],
        )

    def share(self, result: Sequence[Detection], scene: MaskedPicture) -> float:
        targets = [box for thing, box in scene.counted() if thing.shown]
        return _f1([item.box for item in result if item.score >= CUT], targets)

    def why_not(self, at: int, before: Floats, after: Floats) -> str:
        absent = np.array([one >= len(self.lesson.positives) for one in self.helds[at]])
        gained = float(after[~absent].mean() - before[~absent].mean())
        if gained <= 0:
            return (
                f"no better on {int((~absent).sum())} held-out pictures of it: "
                f"{after[~absent].mean():.2f} right, {before[~absent].mean():.2f} without"
            )
        if absent.any() and 1 - after[absent].mean() > max(MOST_FALSE, 1 - before[absent].mean()):
            return (
                f"harmful: found in {int((after[absent] < 1).sum())} of {int(absent.sum())} "
                "held-out pictures without it"
            )
        return ""


def _f1(boxes: Sequence[Sequence[float]], targets: Sequence[Sequence[float]]) -> float:
    near = np.array([[box_iou(box, other) for other in targets] for box in boxes], np.float64)
    return f1(near.reshape(len(boxes), len(targets)), SAME_BOX)


class LocTuner(AnnotatedTuner):
    """The tuner of ``find``."""

    tool, role, course = "loc", "detector", _LocSession
    needs = 'an OWLv2 (backend = "owlv2")'

    @staticmethod
    def can_learn(backend: Any) -> bool:
        return isinstance(backend, ProposalDetector)
