"""The rules of the matcher role."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
from viper.tools.roles import Matcher, Pixels

TEXTS = ("a red cube", "two dogs on a sofa", "ball")


def check_matcher(
    backend: Any,
    images: Sequence[Pixels] | None = None,
    *,
    texts: Sequence[str] = TEXTS,
    tolerance: float = TOLERANCE,
) -> None:
    """Checks a :class:`~viper.tools.roles.Matcher`.

    Args:
        images: uint8 [H, W, 3]; None takes noise.
        texts: at least two.
        tolerance: what numbers of an embedding may differ by between runs.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    with keeps_identity(backend, Matcher):
        scale = backend.logit_scale
        good = isinstance(scale, float) and math.isfinite(scale) and scale > 0
        require(good, f"logit_scale must be a finite number above 0, not {scale!r}")
        leaves_arrays_alone(backend.encode_images, images)
        agree = partial(np.allclose, rtol=0, atol=tolerance)
        seen = _check_side("encode_images", backend.encode_images, images, agree)
        read = _check_side("encode_texts", backend.encode_texts, texts, agree)
        require(
            seen.shape[1] == read.shape[1],
            f"pictures and texts must share one space, not have {seen.shape[1]} and "
            f"{read.shape[1]} numbers",
        )


def _check_side(name: str, encode: Callable[[Any], Any], items: Sequence[Any], agree: Any) -> Any:
    """One of the two encoders; returns the embeddings [N, D]."""
    gives_nothing(f"{name} of nothing", lambda: encode([]))
    rows = encode(list(items))
    well = isinstance(rows, np.ndarray) and rows.dtype == np.float32 and rows.ndim == 2
    require(well and len(rows) == len(items), f"{name} must give float32 [N, D], a row an item")
    lengths = np.linalg.norm(rows, axis=1)
    require(np.allclose(lengths, 1, atol=1e-2), f"{name} must give rows of length 1, not {lengths}")
    alone = np.concatenate([encode([item]) for item in items])
    require(agree(rows, alone), f"{name} must give in a batch what it gives alone")
    turned = encode(list(reversed(items)))[::-1]
    require(agree(rows, turned), f"{name} must give rows in the order of the items")
    works_in_another_thread(lambda: encode(list(items)), agree)
    return rows
