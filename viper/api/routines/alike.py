"""Routine that finds what looks like examples, for profiles of photographs (API ``photo``)."""

from __future__ import annotations

from collections.abc import Sequence

from viper.api.image_patch import ImagePatch
from viper.api.registry import ALL_TASKS, routine
from viper.api.runtime import Caller


@routine(ALL_TASKS, api="photo")
def find_like(
    call: Caller, patches: Sequence[ImagePatch], image_patch: ImagePatch | None = None
) -> list[ImagePatch]:
    """Find everything that looks like examples.

    ``patches`` are one to four examples of one kind in one picture, each close around its object.
    Return patches, the surest first, the examples included. The whole picture of the examples is
    searched, or ``image_patch``, which may be part of another picture.

    Example:
        # How many bottles like the first one are there?
        def execute_command(image):
            image_patch = ImagePatch(image)
            bottle_patches = image_patch.find("bottle")
            return len(find_like(bottle_patches[:1])) if bottle_patches else 0
    """
    examples = [patches] if isinstance(patches, ImagePatch) else list(patches)
    place = image_patch or (examples[0] if examples else None)
    found: list[ImagePatch] = call("find_like", examples, image_patch)
    # In place: an empty result is followed through the program by identity.
    found[:] = [patch._in(place._handle) for patch in found] if place else []
    return found
