"""What the modules of line programs make of their arguments: pictures, boxes, objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from viper.api.image_patch import ImagePatch
from viper.api.runtime import ImageHandle

API = "visprog"
"""The API that these modules belong to."""

Picture: TypeAlias = "ImagePatch | ImageHandle"
Objects: TypeAlias = "Sequence[ImagePatch]"


def part_of(image: Any) -> ImagePatch:
    """The picture, or the part of one, as a patch.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(image, ImagePatch):
        return image
    if isinstance(image, ImageHandle):
        return ImagePatch(image)
    raise TypeError(
        f"image must be a picture such as IMAGE or the result of CROP, not {_seen(image)}"
    )


def objects_of(given: Any, name: str = "object") -> list[ImagePatch]:
    """Boxes or objects as a list; a single one counts as a list of one.

    Raises:
        TypeError: it holds something else.
    """
    if isinstance(given, ImagePatch):
        return [given]
    if not isinstance(given, list | tuple) or not all(isinstance(p, ImagePatch) for p in given):
        raise TypeError(f"{name} must be what LOC, SEG or FACEDET gave, not {_seen(given)}")
    return list(given)


def moved_to(patch: ImagePatch, found: Sequence[ImagePatch]) -> list[ImagePatch]:
    """Objects as places in the picture that a patch is part of.

    They may have been found in an earlier version of it, before an edit.

    Raises:
        ValueError: they are places in a picture of another size.
    """
    handle = patch._handle
    for one in found:
        if one._handle.id != handle.id and one._handle.shape != handle.shape:
            raise ValueError(
                f"the object is in a picture of {one._handle.width} x {one._handle.height} pixels, "
                f"the image has {handle.width} x {handle.height}; find it in that image"
            )
    return [one._in(handle) for one in found]


def _seen(value: Any) -> str:
    if isinstance(value, list | tuple) and value:
        return f"a list of {type(value[0]).__name__}"
    return f"a {type(value).__name__}" if value is not None else "nothing"
