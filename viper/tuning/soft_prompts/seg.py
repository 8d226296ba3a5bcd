"""Trains a segmenter on a concept: a linear probe over the segments that it finds.

The logits of the queries on held-out objects decide two things: the logit that a segment needs to
get the concept's name, and whether a query is kept.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.3. Differs: one query is learned instead of 100
vectors, for the reason given in ``vision.second_look``. The logistic loss over segments
replaces the loss of masks, because the masks do not change.
:mod:`viper.tuning.soft_prompts.annotated` is shared with the detector;
:mod:`viper.tuning.soft_prompts.decoder` trains prompts as the supplement describes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.errors import UsageError
from viper.models.vision.prompt_pool import concept_key
from viper.models.vision.roles import Floats, Mask, Segment
from viper.models.vision.second_look import segmenter_prompt
from viper.models.vision.soft_prompts import AdaptableSegmenter, LearnedPrompt
from viper.tuning.soft_prompts import annotated
from viper.tuning.soft_prompts.annotated import AnnotatedTuner, Fitting, Query, Regions
from viper.tuning.soft_prompts.pasting import MaskedPicture

# Share of other held-out objects that must keep their own names.
#
# A segment has one name, so each wrong name replaces a right one.
LEFT_ALONE = 0.998

# Least share of the concept's held-out objects that must get its name: far above the 1 -
# `LEFT_ALONE` that chance gives.
LEAST_NAMED = 0.1

# A segment with at least the first mask IoU counts as the object, the usual bound of a right one. A
# segment with less than the second IoU with every object counts as background; those between may be
# either and train nothing.
SAME, NOTHING = 0.5, 0.4


def mask_ious(masks: Sequence[Mask], others: Sequence[Mask]) -> Floats:
    """Return float32 [N, M]: intersection over union of each mask with each other one."""
    if not masks or not others:
        return np.zeros((len(masks), len(others)), np.float32)
    rows, columns = (
        np.stack(some).reshape(len(some), -1).astype(np.float32) for some in (masks, others)
    )
    shared = rows @ columns.T
    union = rows.sum(1)[:, None] + columns.sum(1)[None] - shared
    return (shared / np.maximum(union, 1)).astype(np.float32)


def segments_of(segments: Sequence[Segment], features: Floats, scene: MaskedPicture) -> Regions:
    """Return the unambiguous segments of a picture.

    Args:
        features: float32 [N, D] of the segments.
    """
    masks = [thing.mask for thing, _ in scene.counted()]
    near = mask_ious([segment.mask for segment in segments], masks)
    return Regions.of(features, near, scene, SAME, NOTHING)[0]


def f1(masks: Sequence[Mask], targets: Sequence[Mask], ignored: Sequence[Mask] = ()) -> float:
    """Return the F1 score of masks matched one to one at IoU of :data:`SAME`; 1 if both are empty.

    Args:
        ignored: masks that may be found or not.
    """
    return annotated.f1(mask_ious(masks, targets), SAME, mask_ious(masks, ignored))


@dataclass(frozen=True, eq=False)
class _Held:
    """Logits of queries on objects that they were not fitted to.

    Attributes:
        logits: float [M], mean logit of each object. The mean is used because all queries are
            applied together later.
        shown: bool [M], whether each object shows the concept.
        by: bool [Q, M], whether each query was applied to each object.
    """

    logits: Floats
    shown: NDArray[np.bool_]
    by: NDArray[np.bool_]

    @classmethod
    def of(
        cls, regions: Regions, helds: Sequence[Sequence[int]], queries: Sequence[Query]
    ) -> _Held:
        """Apply each query to the objects of the pictures that it leaves out."""
        logits = np.zeros(len(regions.shown))
        by = np.zeros((len(queries), len(regions.shown)), np.bool_)
        for at, (held, (query, shift)) in enumerate(zip(helds, queries, strict=True)):
            places = regions.held(held)
            logits[places] += regions.features[places] @ query + shift
            by[at, places] = True
        judged = by.any(axis=0)
        mean = logits[judged] / by.sum(axis=0)[judged]
        return cls(mean.astype(np.float32), regions.shown[judged], by[:, judged])

    @property
    def cut(self) -> float:
        """Return the logit that :data:`LEFT_ALONE` of the other objects do not exceed."""
        others = self.logits[~self.shown]
        return float(np.quantile(others, LEFT_ALONE)) if len(others) else 0.0

    @property
    def named(self) -> float:
        """Return the share of the concept's objects above :attr:`cut`."""
        return float((self.logits > self.cut)[self.shown].mean()) if self.shown.any() else 0.0


class SegTuner(AnnotatedTuner[Regions]):
    """The tuner of ``segment``."""

    role, needs = "segmenter", 'a MaskFormer or a Mask2Former (backend = "maskformer")'
    pictures, salt = 150, 23

    @staticmethod
    def can_learn(backend: Any) -> bool:
        return isinstance(backend, AdaptableSegmenter) and hasattr(backend, "described")

    def look(self, backend: Any, scenes: Sequence[MaskedPicture]) -> list[tuple[Any, Any]]:
        encodings = [backend.encode(scene.pixels) for scene in scenes]
        return [(encoding, backend.described(encoding)) for encoding in encodings]

    def regions(self, detections: Any, scene: MaskedPicture) -> Regions:
        segments, regions = detections
        self._widths = regions.widths
        return segments_of(segments, regions.features, scene)

    def fitting(self, regions: Regions) -> Fitting:
        if not regions.shown.any():
            raise UsageError(
                f"the segmenter finds no outline of any {self.data.concept!r} in the "
                f"{len(self.data.positives)} pictures of it; it can learn names of what it finds"
            )
        return Fitting(regions, self._widths)

    def prompts(self, fitting: Fitting, queries: Sequence[Query]) -> Iterator[Floats]:
        self._seen = _Held.of(fitting.known, self.helds, queries)
        for query, shift in queries:
            yield segmenter_prompt(query, shift - self._seen.cut)

    def answers(
        self, backend: Any, encodings: Sequence[Any], vectors: Floats
    ) -> tuple[list[Any], list[Any]]:
        prompts = [LearnedPrompt(self._name, vectors)]
        return (
            [backend.segments(encoding, None) for encoding in encodings],
            [backend.segments_adapted(encoding, prompts) for encoding in encodings],
        )

    def share(self, result: Sequence[Segment], scene: MaskedPicture) -> float:
        counted = [thing for thing, _ in scene.counted()]
        targets = [thing.mask for thing in counted if thing.shown]
        hidden = [thing.mask for thing in scene.things if thing.shown and thing not in counted]
        masks = [segment.mask for segment in result if segment.label == self._name]
        return f1(masks, targets, hidden)

    def why_not(self, at: int, before: Floats, after: Floats) -> str:
        seen, named = self._seen, self._seen.named
        if named < LEAST_NAMED:
            return (
                f"not told apart: {named:.0%} of its held-out objects are surer to be it than "
                f"nearly all others are; {LEAST_NAMED:.0%} are asked for"
            )
        logits = seen.logits[seen.by[at] & seen.shown]
        if not (logits > seen.cut).any():
            return f"of no use: it names none of {len(logits)} held-out objects"
        if after.mean() < before.mean():
            return (
                f"harmful: {after.mean():.2f} right in {len(after)} held-out pictures, "
                f"{before.mean():.2f} without"
            )
        return ""

    @property
    def _name(self) -> str:
        return concept_key("seg", self.data.concept)
