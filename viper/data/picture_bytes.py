"""Decoding an encoded picture that lies within another file."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import numpy as np

from viper.errors import MediaError
from viper.tools.media import MAX_IMAGE_PIXELS, PICTURE_FORMATS
from viper.tools.roles import Pixels


def decoded(data: bytes, where: str, formats: Sequence[str] = PICTURE_FORMATS) -> Pixels:
    """The picture as ``uint8 [H, W, 3]``, RGB.

    Args:
        where: what messages call it.
        formats: those that Pillow may take it for.

    Raises:
        MediaError: damaged, none of the formats, or too many pixels.
    """
    from PIL import Image

    try:
        with Image.open(BytesIO(data), formats=tuple(formats)) as image:
            if image.width * image.height > MAX_IMAGE_PIXELS:
                raise MediaError(f"{where}: {image.width} x {image.height} pixels are too many")
            return np.array(image.convert("RGB"), dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise MediaError(f"{where}: no picture that can be read ({error}); get it again") from None
