"""Trains a detector of the OWL family on a concept: a linear probe over the boxes it proposes.

`LocTuner` fills in the steps of `AnnotatedTuner.trained`: boxes that the detector proposes become
regions, queries are fitted to them, `fitted_moves` moves their boxes, and held-out pictures decide.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.2. Differs: the negatives are all other objects
in the pictures and boxes of the background, instead of 13 absent names, because a query is compared
with places and not with names. There is no box loss, because the features that the box head reads
do not change. The logistic loss has no focal weight; a detector needs one only if nearly all
regions are easy. :mod:`viper.tuning.soft_prompts.annotated` is shared with the segmenter;
:mod:`viper.tuning.soft_prompts.decoder` trains prompts as the supplement describes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viper.agreement import box_iou
from viper.models.vision.boxes import overlaps
from viper.models.vision.roles import Detection, Floats
from viper.models.vision.second_look import (
    BLOCKS,
    PLACES,
    ProposalDetector,
    Proposals,
    detector_prompt,
    moves_between,
)
from viper.models.vision.soft_prompts import LearnedPrompt
from viper.tuning.soft_prompts.annotated import AnnotatedTuner, Fitting, Query, Regions, f1
from viper.tuning.soft_prompts.pasting import MaskedPicture

# Score of a box that is as likely the concept as not; the threshold at which profiles start.
CUT = 0.3

# Stricter than `viper.agreement.SAME_BOX`: at .5 a box around the object and its neighbour would
# pass validation.
VALIDATED_IOU = 0.6

# Largest share of held-out pictures without the concept in which a prompt may find it, unless the
# detector found it there before. Few negatives are held out, so a stricter share would be noise.
MOST_FALSE = 0.5

# A box with at least the first IoU counts as the object. A box with less than the second IoU with
# every object counts as background. Loose, because boxes move to the object afterwards.
NEAR, BARE = 0.35, 0.3

# Weight of the ridge penalty when the movement of boxes is fitted: of the order of the inner
# product of a standardised feature with itself, so that few objects move boxes little.
RIDGE = 0.5


@dataclass(frozen=True, eq=False)
class Proposed(Regions):
    """Proposals of many pictures.

    Attributes:
        moves: float32 [N, 4], movement from each box to the box of its object; NaN without one.
    """

    moves: Floats


def fitted_moves(fitting: Fitting, regions: Proposed, held: Collection[int]) -> Floats:
    """Return float32 [4, D + 1]: a linear map from features to the movement of a box.

    It is fitted by ridge regression to the boxes near any object, in pictures not held out.
    """
    import torch

    chosen = regions.without(held)
    chosen = chosen[~np.isnan(regions.moves[chosen, 0])]
    targets = torch.from_numpy(regions.moves[chosen])
    mean = targets.mean(0)
    damped = fitting.products[chosen][:, chosen] + RIDGE * torch.eye(len(chosen))
    shares = torch.linalg.solve(damped, targets - mean)
    rows = (fitting.rows[chosen].T @ shares).T.numpy() / fitting.deviation
    shifts = mean.numpy() - rows @ fitting.mean
    return np.concatenate((rows, shifts[:, None]), axis=1).astype(np.float32)


class LocTuner(AnnotatedTuner[Proposed]):
    """The tuner of ``find``."""

    role, needs = "detector", 'an OWLv2 (backend = "owlv2")'
    # The salt keeps the composed pictures of two tools apart under one seed.
    pictures, batch, salt = 200, 4, 21

    @staticmethod
    def can_learn(backend: Any) -> bool:
        return isinstance(backend, ProposalDetector)

    def look(self, backend: Any, scenes: Sequence[MaskedPicture]) -> list[tuple[Any, Proposals]]:
        encodings = backend.encode([scene.pixels for scene in scenes])
        return [(encoding, backend.proposals(encoding)) for encoding in encodings]

    def regions(self, detections: Proposals, scene: MaskedPicture) -> Proposed:
        boxes = np.array([box for _, box in scene.counted()], np.float32).reshape(-1, 4)
        near = overlaps(detections.boxes, boxes)
        rows, places = Regions.of(detections.features, near, scene, NEAR, BARE)
        moves = np.full((len(places), 4), np.nan, np.float32)
        of_things = near.max(axis=1, initial=0.0)[places] >= NEAR
        if of_things.any():
            chosen = places[of_things]
            nearest = boxes[near[chosen].argmax(axis=1)]
            moves[of_things] = moves_between(detections.boxes[chosen], nearest)
        return Proposed(**vars(rows), moves=moves)

    def fitting(self, regions: Proposed) -> Fitting:
        self._known = regions
        return Fitting(regions, [places * regions.features.shape[1] // PLACES for places in BLOCKS])

    def prompts(self, fitting: Fitting, queries: Sequence[Query]) -> Iterator[Floats]:
        fits = [(held, *query) for held, query in zip(self.helds, queries, strict=True)]
        # log odds: shifts of a score add up on that scale only
        cut = float(np.log(CUT / (1 - CUT))) - fitting.margin(fits)
        for held, query, shift in fits:
            yield detector_prompt(query, shift + cut, fitted_moves(fitting, self._known, held))

    def answers(
        self, backend: Any, encodings: Sequence[Any], vectors: Floats
    ) -> tuple[list[Any], list[Any]]:
        concept = self.data.concept
        prompts = [LearnedPrompt(concept, vectors)]
        return (
            [backend.detect(encoding, [concept])[0] for encoding in encodings],
            [backend.detect_adapted(encoding, concept, prompts) for encoding in encodings],
        )

    def share(self, result: Sequence[Detection], scene: MaskedPicture) -> float:
        targets = [box for thing, box in scene.counted() if thing.shown]
        return _f1([item.box for item in result if item.score >= CUT], targets)

    def why_not(self, at: int, before: Floats, after: Floats) -> str:
        absent = np.array([place >= len(self.data.positives) for place in self.helds[at]])
        here, here_before = after[~absent], before[~absent]
        if here.mean() <= here_before.mean():
            return (
                f"no better on {len(here)} held-out pictures of it: "
                f"{here.mean():.2f} right, {here_before.mean():.2f} without"
            )
        if absent.any() and 1 - after[absent].mean() > max(MOST_FALSE, 1 - before[absent].mean()):
            return (
                f"harmful: found in {int((after[absent] < 1).sum())} of {int(absent.sum())} "
                "held-out pictures without it"
            )
        return ""


def _f1(boxes: Sequence[Sequence[float]], targets: Sequence[Sequence[float]]) -> float:
    near = np.array([[box_iou(box, other) for other in targets] for box in boxes], np.float64)
    return f1(near.reshape(len(boxes), len(targets)), VALIDATED_IOU)
