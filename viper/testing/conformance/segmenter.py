"""The rules of the segmenter role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from viper.tools.roles import Pixels, Segment, Segmenter

NO_LABEL = "no such label"

Found = list[list[Segment]]


@dataclass(frozen=True)
class KnownRegion:
    """A region whose pixels are known, for a segmenter that was trained to find it.

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
    """Checks a :class:`~viper.tools.roles.Segmenter`.

    Args:
        images: uint8 [H, W, 3], not all square; None takes noise. The backend should find
            something in them: most rules are about what it finds.
        known: regions that a segment of their label has to cover; only these show a mask
            the wrong way round.
        tolerance: what scores, and masks as a share of their picture's pixels, may differ
            by between runs.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    with keeps_identity(backend, Segmenter):
        leaves_arrays_alone(lambda given: _all_found(backend, given), images)
        found = _all_found(backend, images)
        for picture, segments in zip(images, found, strict=True):
            _are_well_formed(segments, picture)
        agree = partial(_same_for_all, tolerance=tolerance)
        for picture, segments in zip(images, found, strict=True):
            _names_restrict(backend, picture, segments, agree)
        require(agree(found, _all_found(backend, images)), "asking again must give the same")
        works_in_another_thread(lambda: _all_found(backend, images), agree)
    for region in known:
        _is_covered(backend, region)


def _all_found(backend: Any, images: Sequence[Pixels]) -> Found:
    """All segments of every picture; the encodings are made before any is asked of."""
    encodings = [backend.encode(image) for image in images]
    return [backend.segments(encoding, None) for encoding in encodings]


def _are_well_formed(segments: Sequence[Segment], picture: Pixels) -> None:
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
    ordered = all(one.score >= other.score for one, other in pairwise(segments))
    require(ordered, "segments must come best first")
    apart = not any((one.mask & other.mask).any() for one, other in combinations(segments, 2))
    require(apart, "segments must not overlap")


def _names_restrict(backend: Any, picture: Pixels, segments: list[Segment], agree: Any) -> None:
    encoding = backend.encode(picture)
    gives_nothing("segments of no names", lambda: backend.segments(encoding, []))
    gives_nothing("segments of an unknown name", lambda: backend.segments(encoding, [NO_LABEL]))
    for label in {each.label for each in segments}:
        wanted = [each for each in segments if each.label == label]
        given = backend.segments(encoding, [label, NO_LABEL])
        require(agree([wanted], [given]), "with names it must give the segments so labelled")


def _same_for_all(one: Found, other: Found, tolerance: float) -> bool:
    return all(
        len(found) == len(again)
        and all(_same(a, b, tolerance) for a, b in zip(found, again, strict=True))
        for found, again in zip(one, other, strict=True)
    )


def _same(one: Segment, other: Segment, tolerance: float) -> bool:
    return (
        one.label == other.label
        and abs(one.score - other.score) <= tolerance
        and one.mask.shape == other.mask.shape
        and float((one.mask != other.mask).mean()) <= tolerance
    )


def _is_covered(backend: Any, region: KnownRegion) -> None:
    segments = backend.segments(backend.encode(region.image), [region.label])
    overlap = max((_iou(each.mask, region.mask) for each in segments), default=0.0)
    require(
        overlap > 0.5,
        f"a {region.label} is known, but its best segment overlaps it by {overlap:.2f} "
        f"({len(segments)} found)",
    )


def _iou(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    return float((one & other).sum() / max(1, (one | other).sum()))
