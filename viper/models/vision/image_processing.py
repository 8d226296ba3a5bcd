"""Pictures on their way into transformers' image processors.

:func:`preprocess` is for several pictures, :func:`prepared` for one, from any thread.
:func:`padded` makes thin pictures thick enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from viper.models.libraries import Image
from viper.models.vision.roles import Pixels

# Pictures thinner than this are padded: processors that keep the aspect would round a side to 0,
# and some networks need as many places as they propose boxes.
MAX_ASPECT = 16

# A picture with this side is averaged before a processor scales it down, since some take 25 seconds
# and 3 GB for 12 megapixels. Smaller ones are not, so that scores of data sets stay as they are.
_LARGE_SIDE = 1_500


def preprocess(image_processor: Any, images: Sequence[Pixels], **how: Any) -> Any:
    """Return an image processor's tensors by name for pictures ``uint8 [H, W, 3]``."""
    how = {"input_data_format": "channels_last", "return_tensors": "pt", **how}
    smaller = [_reduced(image, image_processor, how) for image in images]
    return image_processor(images=smaller, **how)


def _reduced(image: Pixels, image_processor: Any, how: Mapping[str, Any]) -> Pixels:
    """Return a writable copy; of a large picture, one of at least twice the size that is seen."""
    size = dict(how.get("size") or getattr(image_processor, "size", None) or {})
    seen = max((side for side in size.values() if side), default=0)
    # OWLv2's makes a square first.
    square = getattr(image_processor, "do_pad", False) and size.get("height")
    factor = (max if square else min)(image.shape[:2]) // (2 * seen) if seen else 0
    if max(image.shape[:2]) < _LARGE_SIDE or factor < 2:
        return np.array(image)  # torch rejects read-only arrays
    return np.array(Image.fromarray(np.ascontiguousarray(image)).reduce(factor))


def padded(image: Pixels, least_side: int = 0, **how: Any) -> Pixels:
    """Return a writable copy of a picture, padded right or below if it is thin.

    Args:
        least_side: of the result, in pixels.
        how: of :func:`numpy.pad`; the padding is black by default.
    """
    height, width = image.shape[:2]
    least = max(least_side, -(-max(height, width) // MAX_ASPECT))
    more = ((0, max(0, least - height)), (0, max(0, least - width)), (0, 0))
    return np.pad(image, more, **how)


def prepared(image_processor: Any, image: Pixels) -> Any:
    """Return the ``pixel_values`` of one picture, ``[3, height, width]``; safe for threads."""
    return preprocess(image_processor, [image])["pixel_values"][0]
