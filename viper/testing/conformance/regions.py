"""Suites for backends that find regions: detectors, face detectors and segmenters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.agreement import box_iou
from viper.models.vision.boxes import MIN_SCORE
from viper.models.vision.roles import Detection, Detector, FaceDetector, Pixels, Segment, Segmenter
from viper.schema import PixelBox
from viper.testing.conformance.rules import (
    TOLERANCE,
    gives_nothing,
    is_chance,
    keeps_identity,
    leaves_arrays_alone,
    require,
    sample_pictures,
    works_in_another_thread,
)

PHRASES = ("red cube", "two dogs on a sofa", "Ball")
NEAR_COPY = 0.9
WEAK = 0.1

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
    _are_wide_and_tall(images)
    with keeps_identity(backend, Detector):
        gives_nothing("encode of no pictures", lambda: backend.encode([]))
        leaves_arrays_alone(lambda copies: _all_boxes(backend, copies, phrases), images)
        boxes = _all_boxes(backend, images, phrases)
        for picture, per_phrase in zip(images, boxes, strict=True):
            for detections in per_phrase:
                _detections_are_well_formed(detections, picture)
        _are_pixels(boxes, images)
        _is_unthresholded(boxes, weak)
        agree = partial(_same_for_all, images=images, tolerance=tolerance)
        _is_independent(backend, images, phrases, boxes, agree)
        works_in_another_thread(lambda: _all_boxes(backend, images, phrases), agree)
        for item in known:
            _object_is_covered(backend, item)


def _all_boxes(backend: Any, images: Sequence[Pixels], phrases: Sequence[str]) -> list[Boxes]:
    encodings = backend.encode(list(images))
    require(len(encodings) == len(images), "encode must give one encoding a picture")
    boxes = [backend.detect(encoding, list(phrases)) for encoding in encodings]
    require(all(len(each) == len(phrases) for each in boxes), "detect must give a list a phrase")
    return boxes


def _are_wide_and_tall(images: Sequence[Pixels]) -> None:
    sides = [image.shape[:2] for image in images]
    both = any(h < w for h, w in sides) and any(h > w for h, w in sides)
    require(both, "check a detector on a wide and a tall picture: square ones hide swapped axes")


def _detections_are_well_formed(detections: Sequence[Detection], picture: Pixels) -> None:
    for item in detections:
        _lies_inside(item.box, picture)
        good = is_chance(item.score) and item.score >= MIN_SCORE
        require(good, f"scores must lie in [{MIN_SCORE}, 1], not at {item.score!r}")
    ordered = all(first.score >= second.score for first, second in pairwise(detections))
    require(ordered, "the boxes of a phrase must come best first")
    overlap = max(
        (box_iou(a.box, b.box) for i, a in enumerate(detections) for b in detections[:i]),
        default=0.0,
    )
    require(overlap <= NEAR_COPY, "near copies of a box must be suppressed")


def _lies_inside(box: PixelBox, picture: Pixels) -> None:
    height, width = picture.shape[:2]
    inside = 0 <= box[0] < box[2] <= width and 0 <= box[1] < box[3] <= height
    require(inside, f"boxes must lie in their picture ({width} x {height}), not at {box}")


def _are_pixels(boxes: Sequence[Boxes], images: Sequence[Pixels]) -> None:
    ends = [max(item.box[2:]) for per_phrase in boxes for each in per_phrase for item in each]
    shares = bool(ends) and max(ends) <= 1 < max(max(image.shape[:2]) for image in images)
    require(not shares, "boxes must be in pixels; these look like shares of the picture")


def _is_unthresholded(boxes: Sequence[Boxes], weak: float) -> None:
    scores = [item.score for per_phrase in boxes for each in per_phrase for item in each]
    lowest = min(scores, default=1.0)
    require(
        lowest < weak,
        f"no threshold may be applied, but no box of any phrase scores below {weak} "
        f"(lowest: {lowest:.3f})",
    )


def _is_independent(
    backend: Any, images: Sequence[Pixels], phrases: Sequence[str], boxes: list[Boxes], agree: Any
) -> None:
    encoding = backend.encode([images[0]])[0]
    gives_nothing("detect without phrases", lambda: backend.detect(encoding, []))
    alone = [_all_boxes(backend, [image], phrases)[0] for image in images]
    require(agree(boxes, alone), "a picture in a batch must give what it gives alone")
    single = [
        [backend.detect(encoding, [phrase])[0] for phrase in phrases]
        for encoding in backend.encode(list(images))
    ]
    require(agree(boxes, single), "a phrase's boxes must not depend on the other phrases")
    turned = [list(reversed(each)) for each in _all_boxes(backend, images, phrases[::-1])]
    require(agree(boxes, turned), "lists must come in the order of the phrases")


def _same_for_all(
    first: Sequence[Boxes], second: Sequence[Boxes], images: Sequence[Pixels], tolerance: float
) -> bool:
    return all(
        _same_detections(a, b, tolerance, tolerance * max(image.shape[:2]))
        for boxes, repeated, image in zip(first, second, images, strict=True)
        for a, b in zip(boxes, repeated, strict=True)
    )


def _same_detections(
    first: Sequence[Detection], second: Sequence[Detection], score_slack: float, box_slack: float
) -> bool:
    """Check that each box has its counterpart; boxes near the lowest score need none."""

    def has_counterpart(item: Detection, items: Sequence[Detection]) -> bool:
        return item.score < MIN_SCORE + score_slack or any(
            abs(item.score - each.score) <= score_slack
            and np.allclose(item.box, each.box, rtol=0, atol=box_slack)
            for each in items
        )

    forth = all(has_counterpart(item, second) for item in first)
    return forth and all(has_counterpart(item, first) for item in second)


def _object_is_covered(backend: Any, item: KnownObject) -> None:
    boxes = backend.detect(backend.encode([item.image])[0], [item.phrase])[0]
    overlap = box_iou(boxes[0].box, item.box) if boxes else 0.0
    require(
        overlap > 0.5,
        f"the {item.phrase} lies at {item.box} in pixels from the top-left corner, "
        f"its best box at {boxes[0].box if boxes else None}",
    )


def check_faces(backend: Any, images: Sequence[Pixels] | None = None) -> None:
    """Check a :class:`~viper.models.vision.roles.FaceDetector`.

    Args:
        images: uint8 [H, W, 3], some with faces; None takes noise, which has hardly any.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    with keeps_identity(backend, FaceDetector):
        leaves_arrays_alone(lambda copies: _all_faces(backend, copies), images)
        faces_per_image = _all_faces(backend, images)
        for picture, faces in zip(images, faces_per_image, strict=True):
            _faces_are_well_formed(faces, picture)
        require(
            faces_per_image == _all_faces(backend, images),
            "the same picture must give the same faces",
        )
        works_in_another_thread(lambda: _all_faces(backend, images), lambda a, b: a == b)


def _all_faces(backend: Any, images: Sequence[Pixels]) -> list[list[Detection]]:
    return [list(backend.faces(image)) for image in images]


def _faces_are_well_formed(faces: Sequence[Detection], picture: Pixels) -> None:
    for face in faces:
        _lies_inside(face.box, picture)
        require(is_chance(face.score), f"scores must lie in [0, 1], not at {face.score!r}")
    ordered = all(first.score >= second.score for first, second in pairwise(faces))
    require(ordered, "the surest face must come first")


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
    with keeps_identity(backend, Segmenter):
        leaves_arrays_alone(lambda copies: _all_segments(backend, copies), images)
        regions = _all_segments(backend, images)
        for picture, segments in zip(images, regions, strict=True):
            _segments_are_well_formed(segments, picture)
        agree = partial(_same_segments, tolerance=tolerance)
        for picture, segments in zip(images, regions, strict=True):
            _names_restrict(backend, picture, segments, agree)
        require(agree(regions, _all_segments(backend, images)), "asking again must give the same")
        works_in_another_thread(lambda: _all_segments(backend, images), agree)
    for region in known:
        _region_is_covered(backend, region)


def _all_segments(backend: Any, images: Sequence[Pixels]) -> Segments:
    """Return all segments of every picture; all encodings are made first."""
    encodings = [backend.encode(image) for image in images]
    return [backend.segments(encoding, None) for encoding in encodings]


def _segments_are_well_formed(segments: Sequence[Segment], picture: Pixels) -> None:
    for each in segments:
        well = isinstance(each.mask, np.ndarray) and each.mask.dtype == np.bool_
        require(well, "a mask must be an array of bool")
        require(
            each.mask.shape == picture.shape[:2],
            f"a mask must have its picture's size {picture.shape[:2]}, not {each.mask.shape}",
        )
        require(each.mask.any(), "a segment must have pixels")
        named = isinstance(each.label, str) and each.label.strip()
        require(named, f"a label must be a word, not {each.label!r}")
        require(is_chance(each.score), f"scores must lie in [0, 1], not at {each.score!r}")
    ordered = all(first.score >= second.score for first, second in pairwise(segments))
    require(ordered, "segments must come best first")
    apart = not any((first.mask & second.mask).any() for first, second in combinations(segments, 2))
    require(apart, "segments must not overlap")


def _names_restrict(backend: Any, picture: Pixels, segments: list[Segment], agree: Any) -> None:
    encoding = backend.encode(picture)
    gives_nothing("segments of no names", lambda: backend.segments(encoding, []))
    gives_nothing("segments of an unknown name", lambda: backend.segments(encoding, [NO_LABEL]))
    for label in {each.label for each in segments}:
        expected = [each for each in segments if each.label == label]
        actual = backend.segments(encoding, [label, NO_LABEL])
        require(agree([expected], [actual]), "with names it must give the segments so labelled")


def _same_segments(left: Segments, right: Segments, tolerance: float) -> bool:
    return all(
        len(first) == len(second)
        and all(_same_segment(a, b, tolerance) for a, b in zip(first, second, strict=True))
        for first, second in zip(left, right, strict=True)
    )


def _same_segment(first: Segment, second: Segment, tolerance: float) -> bool:
    return (
        first.label == second.label
        and abs(first.score - second.score) <= tolerance
        and first.mask.shape == second.mask.shape
        and float((first.mask != second.mask).mean()) <= tolerance
    )


def _region_is_covered(backend: Any, region: KnownRegion) -> None:
    segments = backend.segments(backend.encode(region.image), [region.label])
    overlap = max((_mask_iou(each.mask, region.mask) for each in segments), default=0.0)
    require(
        overlap > 0.5,
        f"a {region.label} is known, but its best segment overlaps it by {overlap:.2f} "
        f"({len(segments)} found)",
    )


def _mask_iou(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    return float((first & second).sum() / max(1, (first | second).sum()))
