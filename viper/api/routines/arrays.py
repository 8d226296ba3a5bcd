"""Routines between pictures and arrays, for programs that compute on pixels with NumPy.

They work only where the API of the run includes ``numpy``; the process of such a program maps the
pictures of the query read-only, see ``docs/design/arrays.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.api.image_patch import ImagePatch
from viper.api.registry import ALL_TASKS, routine

API = "numpy"


@routine(ALL_TASKS, api=API, tool=True)
def to_array(tools: Any, patch: ImagePatch) -> NDArray[np.uint8]:
    """Return the pixels of a patch, uint8 [height, width, 3], RGB, top row first; read-only.

    Example:
        # Is the left half brighter than the right half?
        def execute_command(image):
            import numpy as np
            pixels = to_array(ImagePatch(image))
            columns = np.mean(pixels, axis=(0, 2))
            half = len(columns) // 2
            return bool_to_yesno(columns[:half].mean() > columns[half:].mean())
    """
    return tools.array(patch)


@routine(ALL_TASKS, api=API, tool=True)
def to_patch(tools: Any, array: NDArray[np.uint8], patch: ImagePatch) -> ImagePatch:
    """Return a new picture made from an array; ``patch`` is where it comes from.

    The array is uint8 [height, width, 3], uint8 [height, width], or bool [height, width], where
    True is white.

    Example:
        # How many bright spots are there?
        def execute_command(image):
            image_patch = ImagePatch(image)
            bright = to_array(image_patch).mean(axis=2) > 220
            return len(components(to_patch(bright, image_patch)))
    """
    return tools.from_array(array, patch)
