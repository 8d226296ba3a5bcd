"""The spatial routines of the abstract API under other names, as if somebody had renamed them.

Used as a file of routines (``--api vipergpt+renamed_in_common_words.py``) to see what a bank of
examples is worth after such a change.
"""

from __future__ import annotations

from viper.api.image_patch import ImagePatch
from viper.api.registry import routine
from viper.api.routines.spatial import (
    get_middle_patch,
    get_patch_above_of,
    get_patch_below_of,
    get_patch_closest_to_anchor_object,
    get_patch_left_of,
    get_patch_right_of,
    sort_patches_bottom_to_top,
    sort_patches_front_to_back,
    sort_patches_left_to_right,
)


@routine(["ground", "question"])
def arrange_across(list_patches: list[ImagePatch]) -> list[ImagePatch]:
    """Sort patches from left to right."""
    return sort_patches_left_to_right(list_patches)


@routine(["ground", "question"])
def arrange_upwards(list_patches: list[ImagePatch]) -> list[ImagePatch]:
    """Sort patches from bottom to top."""
    return sort_patches_bottom_to_top(list_patches)


@routine(["ground", "question"])
def arrange_by_depth(list_patches: list[ImagePatch]) -> list[ImagePatch]:
    """Sort patches from front to back."""
    return sort_patches_front_to_back(list_patches)


@routine(["ground", "question"])
def central_patch(list_patches: list[ImagePatch]) -> ImagePatch | None:
    """Get the middle patch."""
    return get_middle_patch(list_patches)


@routine(["ground", "question"])
def nearest_patch(list_patches: list[ImagePatch], anchor_object: ImagePatch) -> ImagePatch | None:
    """Get the patch closest to another."""
    return get_patch_closest_to_anchor_object(list_patches, anchor_object)


@routine(["ground", "question"])
def leftward_area(patch: ImagePatch) -> ImagePatch:
    """Region left of a patch."""
    return get_patch_left_of(patch)


@routine(["ground", "question"])
def rightward_area(patch: ImagePatch) -> ImagePatch:
    """Region right of a patch."""
    return get_patch_right_of(patch)


@routine(["ground", "question"])
def upper_area(patch: ImagePatch) -> ImagePatch:
    """Region above a patch."""
    return get_patch_above_of(patch)


@routine(["ground", "question"])
def lower_area(patch: ImagePatch) -> ImagePatch:
    """Region below a patch."""
    return get_patch_below_of(patch)
