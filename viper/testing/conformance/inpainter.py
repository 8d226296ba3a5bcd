"""The rules of the inpainting role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.testing.conformance.rules import (
    keeps_identity,
    leaves_arrays_alone,
    require,
    sample_pictures,
    works_in_another_thread,
)
from viper.tools.roles import Inpainter, Mask, Pixels

PROMPT = "a red cube"
SEED = 7


def check_inpainter(
    backend: Any, images: Sequence[Pixels] | None = None, *, prompt: str = PROMPT
) -> None:
    """Checks an :class:`~viper.tools.roles.Inpainter`.

    Args:
        images: uint8 [H, W, 3], not all square; None takes noise.
        prompt: what is asked for.

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    images = sample_pictures() if images is None else images
    with keeps_identity(backend, Inpainter):
        first, mask = images[0], _masks(images[0])["a box"]
        leaves_arrays_alone(lambda given: _all(backend, given, prompt), [first])
        leaves_arrays_alone(
            lambda given: backend.inpaint(first, given[0].view(np.bool_), prompt, SEED),
            [mask.view(np.uint8)],
        )
        for image in images:
            for name, each in _masks(image).items():
                result = backend.inpaint(image, each, prompt, SEED)
                _is_well_formed(result, image)
                require(
                    np.array_equal(result[~each], image[~each]),
                    f"pixels outside the mask must stay as they were, also where it is {name}",
                )
        painted = backend.inpaint(first, mask, prompt, SEED)
        require((painted != first).any(), "something must be painted where the mask holds")
        again = backend.inpaint(first, mask, prompt, SEED)
        require(np.array_equal(painted, again), "the same seed must give the same picture")
        works_in_another_thread(
            lambda: backend.inpaint(first, mask, prompt, SEED), lambda a, b: np.array_equal(a, b)
        )


def _all(backend: Any, images: Sequence[Pixels], prompt: str) -> list[Pixels]:
    return [backend.inpaint(each, _masks(each)["a box"], prompt, SEED) for each in images]


def _masks(image: Pixels) -> dict[str, Mask]:
    """Masks of a picture with what they are: nothing, everything, a box, a corner, two places."""
    height, width = image.shape[:2]
    nothing = np.zeros((height, width), bool)
    box, corner, two = nothing.copy(), nothing.copy(), nothing.copy()
    box[height // 3 : height // 3 * 2, width // 4 : width // 2] = True
    corner[-1, -1] = True
    two[0, 0] = two[-1, width // 2 :] = True
    return {
        "empty": nothing,
        "everything": ~nothing,
        "a box": box,
        "one corner": corner,
        "two places": two,
    }


def _is_well_formed(result: Pixels, image: Pixels) -> None:
    well = isinstance(result, np.ndarray) and result.dtype == np.uint8
    require(well, "inpaint must give a uint8 array")
    require(
        result.shape == image.shape,
        f"inpaint must give a picture of the same size {image.shape}, not {result.shape}",
    )
