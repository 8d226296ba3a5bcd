"""The values that programs get of the media of a query, by name."""

from __future__ import annotations

from typing import Any

from viper.models.media import Media
from viper.sandbox import Ref


def media_arguments(media: Media) -> dict[str, Any]:
    """``video``, or ``image`` and ``image_list``, for entry points; names of pictures for lines.

    Line programs know the first picture as ``IMAGE``; of several the first is also ``IMAGE1``, and
    so on; of two the first is also ``LEFT``, the second ``RIGHT``.
    """
    if media.video is not None:
        count, height, width = media.video.shape[:3]
        return {"video": Ref("video", ("video0", count, width, height))}
    pictures = [
        Ref("image", (f"image{number}", picture.shape[1], picture.shape[0]))
        for number, picture in enumerate(media.images)
    ]
    named = {"image": pictures[0], "image_list": pictures, "IMAGE": pictures[0]}
    if len(pictures) > 1:
        named |= {f"IMAGE{number}": picture for number, picture in enumerate(pictures, 1)}
    if len(pictures) == 2:
        named |= {"LEFT": pictures[0], "RIGHT": pictures[1]}
    return named
