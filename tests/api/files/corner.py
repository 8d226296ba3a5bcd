"""Routines about corners."""

import math

from viper import ImagePatch, routine

CORNERS = {"top left": (0, 1), "top right": (1, 1), "bottom left": (0, 0), "bottom right": (1, 0)}


def _gap(patch: ImagePatch, x: float, y: float) -> float:
    return math.hypot(patch.horizontal_center - x, patch.vertical_center - y)


@routine(["ground", "question"])
def get_patch_at_corner(
    image: ImagePatch, list_patches: list[ImagePatch], corner: str
) -> ImagePatch:
    """Choose the patch nearest a corner of the image.

    Example:
        # the cube in the top left corner
        def execute_command(image):
            image_patch = ImagePatch(image)
            return get_patch_at_corner(image_patch, image_patch.find("cube"), "top left")
    """
    across, up = CORNERS[corner]
    x = image.left + across * image.width
    y = image.lower + up * image.height
    return min(list_patches, key=lambda patch: _gap(patch, x, y))


@routine(["question"], tool=True)
def mean_brightness(tools, patch: ImagePatch) -> float:
    """How bright a patch is, from 0 to 255."""
    return float(tools.pixels(patch).mean())
