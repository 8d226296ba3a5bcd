"""Routines on patches: choosing, measuring, sorting, and regions beside an object.

Source: ``best_image_match`` and ``distance`` are ViperGPT's, the others the
spatial routines of Stanić et al. 2024, sec. 2.2 and A.4.2, whose text gives
names only for most; what they do on ties, borders and empty lists is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot

from viper.api.image_patch import ImagePatch
from viper.api.registry import ALL_TASKS, ANSWER_TASKS, IMAGE_TASKS, routine
from viper.api.runtime import Call, texts


@routine(ALL_TASKS, api="vipergpt", hide=("return_index",))
def best_image_match(
    call: Call,
    list_patches: Sequence[ImagePatch],
    content: Sequence[str],
    return_index: bool = False,
) -> ImagePatch | int | None:
    """Choose the patch that matches a text.

    ``content`` is one or several descriptions. With ``return_index=True`` it
    gives the position in the list instead of the patch. None for an empty list.

    Example:
        # the boy with the red scarf
        def execute_command(image):
            boy_patches = ImagePatch(image).find("boy")
            return best_image_match(boy_patches, ["boy with a red scarf"])
    """
    patches = list(list_patches)
    descriptions = texts(content, "content")
    if not patches:
        return None
    index = int(call("best_image_match", patches, descriptions)) if len(patches) > 1 else 0
    return index if return_index else patches[index]


@routine(ALL_TASKS, api="vipergpt")
def distance(patch_a: ImagePatch, patch_b: ImagePatch) -> float:
    """Gap between two patches.

    In pixels between their nearest edges; 0 when they touch; when they overlap,
    minus their intersection over union (between -1 and 0).

    Example:
        # the chair nearest to the stove
        def execute_command(image):
            image_patch = ImagePatch(image)
            stove_patch = image_patch.find("stove")[0]
            chair_patches = image_patch.find("chair")
            chair_patches.sort(key=lambda chair: distance(chair, stove_patch))
            return chair_patches[0]
    """
    across = max(patch_a.left, patch_b.left) - min(patch_a.right, patch_b.right)
    along = max(patch_a.lower, patch_b.lower) - min(patch_a.upper, patch_b.upper)
    if across >= 0 or along >= 0:
        return hypot(max(across, 0), max(along, 0))
    shared = across * along
    return -shared / (patch_a.area + patch_b.area - shared)


@routine(IMAGE_TASKS)
def sort_patches_left_to_right(list_patches: Sequence[ImagePatch]) -> list[ImagePatch]:
    """Sort patches from left to right.

    A new list by horizontal centre, leftmost first; equal ones keep their order,
    an empty list stays empty.

    Example:
        # the second bottle from the right
        def execute_command(image):
            bottle_patches = ImagePatch(image).find("bottle")
            bottle_patches = sort_patches_left_to_right(bottle_patches)
            return bottle_patches[-2]
    """
    return sorted(list_patches, key=lambda patch: patch.horizontal_center)


@routine(IMAGE_TASKS)
def sort_patches_bottom_to_top(list_patches: Sequence[ImagePatch]) -> list[ImagePatch]:
    """Sort patches from bottom to top.

    A new list by vertical centre, lowest first; equal ones keep their order, an
    empty list stays empty.

    Example:
        # the shelf at the very top
        def execute_command(image):
            shelf_patches = ImagePatch(image).find("shelf")
            shelf_patches = sort_patches_bottom_to_top(shelf_patches)
            return shelf_patches[-1]
    """
    return sorted(list_patches, key=lambda patch: patch.vertical_center)


@routine(IMAGE_TASKS)
def sort_patches_front_to_back(list_patches: Sequence[ImagePatch]) -> list[ImagePatch]:
    """Sort patches from front to back.

    A new list by depth, nearest to the camera first; equal ones keep their
    order, an empty list stays empty.

    Example:
        # the sheep in the back
        def execute_command(image):
            sheep_patches = ImagePatch(image).find("sheep")
            sheep_patches = sort_patches_front_to_back(sheep_patches)
            return sheep_patches[-1]
    """
    return sorted(list_patches, key=lambda patch: patch.compute_depth())


@routine(IMAGE_TASKS)
def get_middle_patch(list_patches: Sequence[ImagePatch]) -> ImagePatch | None:
    """Get the middle patch.

    The middle one from left to right; of an even number the left one of the two
    in the middle. None for an empty list.

    Example:
        # the window in the middle
        def execute_command(image):
            window_patches = ImagePatch(image).find("window")
            return get_middle_patch(window_patches)
    """
    ordered = sort_patches_left_to_right(list_patches)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


@routine(IMAGE_TASKS)
def get_patch_closest_to_anchor_object(
    list_patches: Sequence[ImagePatch], anchor_object: ImagePatch
) -> ImagePatch | None:
    """Get the patch closest to another.

    By ``distance``; of equally close ones the first. The anchor itself does not
    count when it is in the list. None when no other patch is left.

    Example:
        # the cup next to the teapot
        def execute_command(image):
            image_patch = ImagePatch(image)
            teapot_patch = image_patch.find("teapot")[0]
            cup_patches = image_patch.find("cup")
            return get_patch_closest_to_anchor_object(cup_patches, teapot_patch)
    """
    others = [patch for patch in list_patches if patch != anchor_object]
    return min(others, key=lambda patch: distance(patch, anchor_object), default=None)


@routine(IMAGE_TASKS)
def get_patch_left_of(patch: ImagePatch) -> ImagePatch:
    """Region left of a patch.

    Everything in the image left of its left edge, at full height; an empty patch
    when it stands at the border.

    Example:
        # the dog to the left of the gate
        def execute_command(image):
            gate_patch = ImagePatch(image).find("gate")[0]
            return get_patch_left_of(gate_patch).find("dog")[0]
    """
    return patch._whole_image()._strip(right=patch.left)


@routine(IMAGE_TASKS)
def get_patch_right_of(patch: ImagePatch) -> ImagePatch:
    """Region right of a patch.

    Everything in the image right of its right edge, at full height; an empty
    patch when it stands at the border.

    Example:
        # the bench to the right of the fountain
        def execute_command(image):
            fountain_patch = ImagePatch(image).find("fountain")[0]
            return get_patch_right_of(fountain_patch).find("bench")[0]
    """
    return patch._whole_image()._strip(left=patch.right)


@routine(IMAGE_TASKS)
def get_patch_above_of(patch: ImagePatch) -> ImagePatch:
    """Region above a patch.

    Everything in the image above its upper edge, at full width; an empty patch
    when it stands at the border.

    Example:
        # the clock above the fireplace
        def execute_command(image):
            fireplace_patch = ImagePatch(image).find("fireplace")[0]
            return get_patch_above_of(fireplace_patch).find("clock")[0]
    """
    return patch._whole_image()._strip(lower=patch.upper)


@routine(IMAGE_TASKS)
def get_patch_below_of(patch: ImagePatch) -> ImagePatch:
    """Region below a patch.

    Everything in the image below its lower edge, at full width; an empty patch
    when it stands at the border.

    Example:
        # the boat below the bridge
        def execute_command(image):
            bridge_patch = ImagePatch(image).find("bridge")[0]
            return get_patch_below_of(bridge_patch).find("boat")[0]
    """
    return patch._whole_image()._strip(upper=patch.lower)


@routine(IMAGE_TASKS)
def get_patch_around_of(patch: ImagePatch) -> ImagePatch:
    """Region around a patch.

    The patch enlarged by its own width to the left and right and by its own
    height upwards and downwards, cut off at the borders of the image.

    Example:
        # the bird near the feeder
        def execute_command(image):
            feeder_patch = ImagePatch(image).find("feeder")[0]
            return get_patch_around_of(feeder_patch).find("bird")[0]
    """
    return patch._whole_image()._strip(
        left=patch.left - patch.width,
        lower=patch.lower - patch.height,
        right=patch.right + patch.width,
        upper=patch.upper + patch.height,
    )


@routine(ANSWER_TASKS)
def best_description_from_options(
    patch: ImagePatch, object_name: str, options: Sequence[str]
) -> str:
    """Describe an object by one option.

    Takes for granted that the patch shows the object, and gives the one of the
    options that fits it best.

    Example:
        # Is the fence wooden or made of metal?
        def execute_command(image):
            fence_patch = ImagePatch(image).find("fence")[0]
            return best_description_from_options(fence_patch, "fence", ["wooden", "metal"])
    """
    return patch.best_description_from_options(object_name, options)
