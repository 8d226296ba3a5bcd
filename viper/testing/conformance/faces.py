"""The rules of the faces role."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from viper.testing.conformance.rules import (
    is_chance,
    keeps_identity,
    leaves_arrays_alone,
    require,
    sample_pictures,
    works_in_another_thread,
)
from viper.tools.roles import Detection, FaceDetector, Pixels


def check_faces(backend: Any, images: Sequence[Pixels] | None = None) -> None:
    """Checks a :class:`~viper.tools.roles.FaceDetector`.

    Args:
        images: uint8 [H, W, 3], some with faces; None takes noise, in which there are hardly any.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    with keeps_identity(backend, FaceDetector):
        leaves_arrays_alone(lambda given: _all_found(backend, given), images)
        found = _all_found(backend, images)
        for picture, faces in zip(images, found, strict=True):
            _are_well_formed(faces, picture)
        require(found == _all_found(backend, images), "the same picture must give the same faces")
        works_in_another_thread(
            lambda: _all_found(backend, images), lambda one, other: one == other
        )


def _all_found(backend: Any, images: Sequence[Pixels]) -> list[list[Detection]]:
    return [list(backend.faces(image)) for image in images]


def _are_well_formed(faces: Sequence[Detection], picture: Pixels) -> None:
    height, width = picture.shape[:2]
    for face in faces:
        x0, y0, x1, y1 = face.box
        inside = 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height
        require(inside, f"boxes must lie in their picture ({width} x {height}), not at {face.box}")
        require(is_chance(face.score), f"scores must lie in [0, 1], not at {face.score!r}")
    ordered = all(one.score >= other.score for one, other in pairwise(faces))
    require(ordered, "the surest face must come first")
