"""Suites for backends that find regions: detectors, face detectors and segmenters.

Each ``check_…`` asks about all pictures and requires that the answers are well formed, that asking
otherwise (alone, turned, by name, in another thread) gives the same, and that known things are
found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.agreement import box_iou
from viper.models.vision.boxes import MIN_SCORE
from viper.models.vision.roles import Detection, Detector, FaceDetector, Pixels, Segment, Segmenter
from viper.schema import PixelBox
from viper.testing.conformance.rules import (
    TOLERANCE,
    check_score,
    come_best_first,
    gives_nothing,
    has_size_of,
    keeps_identity,
    leaves_arrays_alone,
    lists_agree,
    require,
    sample_pictures,
    works_in_another_thread,
)

# Of different lengths, one with a capital: detectors lower the case, or must not mind.
PHRASES = ("red cube", "two dogs on a sofa", "Ball")

# Overlap of two boxes of one phrase from which one is a copy: above what `suppress` of any shipped
# detector leaves, below what rounding makes of two equal boxes.
NEAR_COPY = 0.9

# A detector that applies no threshold proposes boxes far below any useful one, .2 to .5.
WEAK = 0.1

# Overlap with which an answer covers a known object: the usual bound of a right box.
COVERS = 0.5

Boxes = list[list[Detection]]


@dataclass(frozen=True)
class KnownObject:
    """Object with a known box, for a detector that was trained to find it."""

    image: Pixels
    phrase: str
    box: PixelBox


def check_detector(
    backend: Any,
    images: Sequence[Pixels] | None = None,
    *,
    phrases: Sequence[str] = PHRASES,
    known: Sequence[KnownObject] = (),
    weak: float = WEAK,
    tolerance: float = TOLERANCE,
) -> None:
    """Check a :class:`~viper.models.vision.roles.Detector`.

    Args:
        images: uint8 [H, W, 3]; a wide and a tall one among them. None takes noise.
        phrases: at least two that differ.
        known: objects that the best box must cover; only these reveal a reversed or swapped
            axis.
        weak: some box of some phrase must score below this, which shows that no threshold is
            applied.
        tolerance: largest difference between runs of scores, and of boxes as a share of the
            picture's longer side.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    sides = [image.shape[:2] for image in images]
    both = any(h < w for h, w in sides) and any(h > w for h, w in sides)
    require(both, "check a detector on a wide and a tall picture: square ones hide swapped axes")

    def detected(pictures: Sequence[Pixels], words: Sequence[str] = phrases) -> list[Boxes]:
        encodings = backend.encode(list(pictures))
        require(len(encodings) == len(pictures), "encode must give one encoding a picture")
        boxes = [backend.detect(encoding, list(words)) for encoding in encodings]
        require(all(len(each) == len(words) for each in boxes), "detect must give a list a phrase")
        return boxes

    def has_counterpart(item: Detection, items: Sequence[Detection], side: int) -> bool:
        return item.score < MIN_SCORE + tolerance or any(  # near the lowest score it needs none
            abs(item.score - each.score) <= tolerance
            and np.allclose(item.box, each.box, rtol=0, atol=tolerance * side)
            for each in items
        )

    def agree(first: Sequence[Boxes], second: Sequence[Boxes]) -> bool:
        return all(
            has_counterpart(item, others, max(image.shape[:2]))
            for boxes, repeated, image in zip(first, second, images, strict=True)
            for a, b in zip(boxes, repeated, strict=True)
            for own, others in ((a, b), (b, a))
            for item in own
        )

    with keeps_identity(backend, Detector):
        gives_nothing("encode of no pictures", lambda: backend.encode([]))
        leaves_arrays_alone(detected, images)
        boxes = detected(images)
        for picture, per_phrase in zip(images, boxes, strict=True):
            for detections in per_phrase:
                _are_well_formed(detections, picture, MIN_SCORE)
                pairs = combinations(detections, 2)
                overlap = max((box_iou(a.box, b.box) for a, b in pairs), default=0.0)
                require(overlap <= NEAR_COPY, "near copies of a box must be suppressed")
        every = [item for per_phrase in boxes for each in per_phrase for item in each]
        ends = [max(item.box[2:]) for item in every]
        shares = bool(ends) and max(ends) <= 1 < max(max(side) for side in sides)
        require(not shares, "boxes must be in pixels; these look like shares of the picture")
        lowest = min((item.score for item in every), default=1.0)
        rule = "no threshold may be applied, but no box of any phrase scores below"
        require(lowest < weak, f"{rule} {weak} (lowest: {lowest:.3f})")
        encoding = backend.encode([images[0]])[0]
        gives_nothing("detect without phrases", lambda: backend.detect(encoding, []))
        alone = [detected([image])[0] for image in images]
        require(agree(boxes, alone), "a picture in a batch must give what it gives alone")
        by_phrase = [detected(images, [phrase]) for phrase in phrases]
        single = [[each[0] for each in row] for row in zip(*by_phrase, strict=True)]
        require(agree(boxes, single), "a phrase's boxes must not depend on the other phrases")
        turned = [list(reversed(each)) for each in detected(images, phrases[::-1])]
        require(agree(boxes, turned), "lists must come in the order of the phrases")
        works_in_another_thread(lambda: detected(images), agree)
        for item in known:
            best = backend.detect(backend.encode([item.image])[0], [item.phrase])[0][:1]
            where = f"the {item.phrase} lies at {item.box} in pixels from the top-left corner"
            box = best[0].box if best else None
            require(box and box_iou(box, item.box) > COVERS, f"{where}, its best box at {box}")


def _are_well_formed(detections: Sequence[Detection], picture: Pixels, least: float) -> None:
    height, width = picture.shape[:2]
    for item in detections:
        x0, y0, x1, y1 = item.box
        inside = 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height
        rule = f"boxes must lie in their picture ({width} x {height})"
        require(inside, f"{rule}, not at {item.box}")
        check_score(item.score, least)
    come_best_first(detections, "boxes")


def check_faces(backend: Any, images: Sequence[Pixels] | None = None) -> None:
    """Check a :class:`~viper.models.vision.roles.FaceDetector`.

    Args:
        images: uint8 [H, W, 3], some with faces; None takes noise, which has hardly any.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images

    def detected(pictures: Sequence[Pixels]) -> list[list[Detection]]:
        return [list(backend.faces(image)) for image in pictures]

    with keeps_identity(backend, FaceDetector):
        leaves_arrays_alone(detected, images)
        faces_per_image = detected(images)
        for picture, faces in zip(images, faces_per_image, strict=True):
            _are_well_formed(faces, picture, 0)
        require(faces_per_image == detected(images), "the same picture must give the same faces")
        works_in_another_thread(lambda: detected(images), eq)


# No data set of labels has it, so every segmenter must find nothing.
NO_LABEL = "no such label"

Segments = list[list[Segment]]


@dataclass(frozen=True)
class KnownRegion:
    """Region with a known mask, for a segmenter that was trained to find it.

    ``mask`` is bool [H, W] of ``image``, uint8 [H, W, 3].
    """

    image: Pixels
    label: str
    mask: NDArray[np.bool_]


def check_segmenter(
    backend: Any,
    images: Sequence[Pixels] | None = None,
    *,
    known: Sequence[KnownRegion] = (),
    tolerance: float = TOLERANCE,
) -> None:
    """Check a :class:`~viper.models.vision.roles.Segmenter`.

    Args:
        images: uint8 [H, W, 3], not all square; None takes noise. The backend should find
            something in them, because most rules are about its segments.
        known: regions that a segment of their label must cover; only these reveal a reversed
            mask.
        tolerance: largest difference between runs of scores, and of masks as a share of their
            picture's pixels.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images

    def segmented(pictures: Sequence[Pixels]) -> Segments:
        encodings = [backend.encode(image) for image in pictures]  # all before the first answer
        return [backend.segments(encoding, None) for encoding in encodings]

    def same_segment(first: Segment, second: Segment) -> bool:
        return (
            first.label == second.label
            and abs(first.score - second.score) <= tolerance
            and first.mask.shape == second.mask.shape
            and float((first.mask != second.mask).mean()) <= tolerance
        )

    agree = partial(lists_agree, agree=same_segment)
    with keeps_identity(backend, Segmenter):
        leaves_arrays_alone(segmented, images)
        regions = segmented(images)
        for picture, segments in zip(images, regions, strict=True):
            for each in segments:
                has_size_of(each.mask, "bool", picture.shape[:2], "a mask")
                require(each.mask.any(), "a segment must have pixels")
                named = isinstance(each.label, str) and each.label.strip()
                require(named, f"a label must be a word, not {each.label!r}")
                check_score(each.score)
            come_best_first(segments, "segments")
            apart = not any((a.mask & b.mask).any() for a, b in combinations(segments, 2))
            require(apart, "segments must not overlap")
            encoding = backend.encode(picture)
            gives_nothing("segments of no names", partial(backend.segments, encoding, []))
            unknown = partial(backend.segments, encoding, [NO_LABEL])
            gives_nothing("segments of an unknown name", unknown)
            for label in {each.label for each in segments}:
                expected = [each for each in segments if each.label == label]
                actual = backend.segments(encoding, [label, NO_LABEL])
                good = agree([expected], [actual])
                require(good, "with names it must give the segments so labelled")
        require(agree(regions, segmented(images)), "asking again must give the same")
        works_in_another_thread(lambda: segmented(images), agree)
    for region in known:
        segments = backend.segments(backend.encode(region.image), [region.label])
        pairs = [(each.mask & region.mask, each.mask | region.mask) for each in segments]
        overlap = max((both.sum() / max(1, either.sum()) for both, either in pairs), default=0.0)
        rule = f"a {region.label} is known, but its best segment overlaps it by {overlap:.2f}"
        require(overlap > COVERS, f"{rule} ({len(segments)} found)")
