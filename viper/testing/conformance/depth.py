"""The rules of the depth role."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from viper.testing.conformance.rules import (
    TOLERANCE,
    gives_nothing,
    keeps_identity,
    leaves_arrays_alone,
    require,
    sample_pictures,
    works_in_another_thread,
)
from viper.tools.roles import DepthEstimator, Floats, Pixels


def check_depth(
    backend: Any, images: Sequence[Pixels] | None = None, *, tolerance: float = TOLERANCE
) -> None:
    """Checks a :class:`~viper.tools.roles.DepthEstimator`.

    That larger is farther needs a picture whose depth is known; test it on one.

    Args:
        images: uint8 [H, W, 3], not all square; None takes noise.
        tolerance: what a map may differ by between runs, as a share of its largest value.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    with keeps_identity(backend, DepthEstimator):
        gives_nothing("depth of no pictures", lambda: backend.depth([]))
        leaves_arrays_alone(backend.depth, images)
        maps = backend.depth(list(images))
        require(len(maps) == len(images), "depth must give one map a picture")
        for image, each in zip(images, maps, strict=True):
            _is_well_formed(each, image)
        agree = partial(_same, tolerance=tolerance)
        alone = [backend.depth([image])[0] for image in images]
        require(agree(maps, alone), "a picture in a batch must give the map that it gives alone")
        works_in_another_thread(lambda: backend.depth(list(images)), agree)


def _is_well_formed(depth: Floats, image: Pixels) -> None:
    well = isinstance(depth, np.ndarray) and depth.dtype == np.float32
    require(well, "a depth map must be a float32 array")
    require(
        depth.shape == image.shape[:2],
        f"a depth map must have its picture's size {image.shape[:2]}, not {depth.shape}",
    )
    require(np.isfinite(depth).all(), "a depth map must hold finite numbers")


def _same(one: Sequence[Floats], other: Sequence[Floats], tolerance: float) -> bool:
    return all(
        a.shape == b.shape and np.allclose(a, b, rtol=0, atol=tolerance * float(np.abs(a).max()))
        for a, b in zip(one, other, strict=True)
    )
