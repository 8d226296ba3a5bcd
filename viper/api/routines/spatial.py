"""Routines on patches: choosing, measuring, sorting, and regions beside an object.

Source: ``best_image_match`` and ``distance`` are ViperGPT's; those of the API ``abstract`` are the
spatial routines of Stanić et al. 2024, sec. 2.2 and A.4.2, whose text gives names only for most;
what they do on ties, borders and empty lists is ours. Those of the API ``more`` are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import hypot

from viper.api.image_patch import ImagePatch
from viper.api.registry import ALL_TASKS, ANSWER_TASKS, IMAGE_TASKS, routine
from viper.api.runtime import Caller, texts


@routine(ALL_TASKS, api="vipergpt", hide=("return_index",), needs="matcher")
def best_image_match(
    call: Caller,
    list_patches: Sequence[ImagePatch],
    content: Sequence[str],
    return_index: bool = False,
) -> ImagePatch | int | None:
    """Choose the patch that matches a text.

    ``content`` is one description or several, which are averaged. Return the best patch,
    however badly it fits, or its position in the list with ``return_index=True``. Return
    None for an empty list.

    Example:
        # the boy with the red scarf
        def execute_command(image):
            image_patch = ImagePatch(image)
            boy_patches = image_patch.find("boy") or [image_patch]
            return best_image_match(boy_patches, ["boy with a red scarf"])
    """
    patches = list(list_patches)
    descriptions = texts(content, "content")
    if not patches:
        return None
    index = int(call("best_image_match", patches, descriptions)) if len(patches) > 1 else 0
    return index if return_index else patches[index]


@routine(ALL_TASKS, api="vipergpt", summary="gap between two patches")
def distance(patch_a: ImagePatch, patch_b: ImagePatch) -> float:
    """Return the gap between two patches.

    The gap is the number of pixels between their nearest edges, and 0 if they touch. If
    they overlap, it is minus their intersection over union: from -1 (the same box) to 0.
    Two boxes of one object are usually below -0.5.

    Example:
        # the chair nearest to the stove
        def execute_command(image):
            image_patch = ImagePatch(image)
            chair_patches = image_patch.find("chair") or [image_patch]
            stove_patches = image_patch.find("stove") or [image_patch]
            return min(chair_patches, key=lambda chair: distance(chair, stove_patches[0]))
    """
    across = max(patch_a.left, patch_b.left) - min(patch_a.right, patch_b.right)
    along = max(patch_a.lower, patch_b.lower) - min(patch_a.upper, patch_b.upper)
    if across >= 0 or along >= 0:
        return hypot(max(across, 0), max(along, 0))
    shared = across * along
    return -shared / (patch_a.area + patch_b.area - shared)


def _is_same(patch: ImagePatch, other: ImagePatch) -> bool:
    # A detector draws one object's box a little differently for every phrase.
    return distance(patch, other) < -0.5


@routine(IMAGE_TASKS, api="abstract")
def sort_patches_left_to_right(list_patches: Sequence[ImagePatch]) -> list[ImagePatch]:
    """Sort patches from left to right.

    Return a new list by horizontal centre, leftmost first. Equal ones keep their order.

    Example:
        # the second bottle from the right
        def execute_command(image):
            image_patch = ImagePatch(image)
            bottle_patches = sort_patches_left_to_right(image_patch.find("bottle"))
            return (bottle_patches[-2:] or [image_patch])[0]
    """
    return sorted(list_patches, key=lambda patch: patch.horizontal_center)


@routine(IMAGE_TASKS, api="abstract")
def sort_patches_bottom_to_top(list_patches: Sequence[ImagePatch]) -> list[ImagePatch]:
    """Sort patches from bottom to top.

    Return a new list by vertical centre, lowest first. Equal ones keep their order.

    Example:
        # the shelf at the very top
        def execute_command(image):
            image_patch = ImagePatch(image)
            shelf_patches = sort_patches_bottom_to_top(image_patch.find("shelf"))
            return shelf_patches[-1] if shelf_patches else image_patch
    """
    return sorted(list_patches, key=lambda patch: patch.vertical_center)


@routine(IMAGE_TASKS, api="abstract", needs="depth")
def sort_patches_front_to_back(list_patches: Sequence[ImagePatch]) -> list[ImagePatch]:
    """Sort patches from front to back.

    Return a new list by depth, nearest to the camera first. Equal ones keep their order.

    Example:
        # the sheep in the back
        def execute_command(image):
            image_patch = ImagePatch(image)
            sheep_patches = sort_patches_front_to_back(image_patch.find("sheep"))
            return sheep_patches[-1] if sheep_patches else image_patch
    """
    return sorted(list_patches, key=lambda patch: patch.compute_depth())


@routine(IMAGE_TASKS, api="abstract")
def get_middle_patch(list_patches: Sequence[ImagePatch]) -> ImagePatch | None:
    """Get the middle patch.

    Return the middle one from left to right; of an even number the left one of the two in
    the middle. Return None for an empty list.

    Example:
        # the window in the middle
        def execute_command(image):
            image_patch = ImagePatch(image)
            return get_middle_patch(image_patch.find("window")) or image_patch
    """
    ordered = sort_patches_left_to_right(list_patches)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


@routine(IMAGE_TASKS, api="abstract")
def get_patch_closest_to_anchor_object(
    list_patches: Sequence[ImagePatch], anchor_object: ImagePatch
) -> ImagePatch | None:
    """Get the patch closest to another.

    Compare by ``distance``; of equally close ones the first wins. The anchor and other
    boxes of its object are left out. Return None if no other patch is left.

    Example:
        # the cup next to the teapot
        def execute_command(image):
            image_patch = ImagePatch(image)
            cup_patches = image_patch.find("cup") or [image_patch]
            teapot_patches = image_patch.find("teapot")
            if not teapot_patches:
                return cup_patches[0]
            return get_patch_closest_to_anchor_object(cup_patches, teapot_patches[0])
    """
    others = [patch for patch in list_patches if not _is_same(patch, anchor_object)]
    return min(others, key=lambda patch: distance(patch, anchor_object), default=None)


@routine(IMAGE_TASKS, summary="tell whether a patch rests on another", needs="depth")
def is_on(depth_ratios: Mapping[str, float], patch: ImagePatch, support: ImagePatch) -> bool:
    """Tell whether a patch rests on another.

    The patch must be above the middle of the support, its lower edge on the support's upper
    part. Where depths are calibrated, it must not be behind the support.

    Example:
        # Is there a cat on the chair?
        def execute_command(image):
            image_patch = ImagePatch(image)
            chair_patches = image_patch.find("chair")
            cat_patches = image_patch.find("cat")
            return any(is_on(cat, chair) for cat in cat_patches for chair in chair_patches)
    """
    # Tolerances for boxes that a detector draws: it may cut off a lower edge (-.1), and the seat of
    # a chair is half-way up its box (.5). What stands on something is not behind it, give or take
    # the error of its depth; only a profile whose depths were calibrated compares them.
    aside = abs(patch.horizontal_center - support.horizontal_center)
    below_top = support.upper - patch.lower
    return (
        aside < 0.4 * max(support.width, patch.width)
        and -0.1 * support.height < below_top < 0.5 * support.height
        and patch.vertical_center > support.vertical_center + 0.3 * support.height
        and (
            "is_on" not in depth_ratios
            or patch.compute_depth() < depth_ratios["is_on"] * support.compute_depth()
        )
    )


@routine(IMAGE_TASKS, summary="tell whether two patches are side by side", needs="depth")
def is_next_to(depth_ratios: Mapping[str, float], patch: ImagePatch, other: ImagePatch) -> bool:
    """Tell whether two patches are next to each other.

    The gap between them is at most two thirds of their mean width. Where depths are
    calibrated, they must be similar. A patch is not next to itself.

    Example:
        # How many chairs are next to the table?
        def execute_command(image):
            image_patch = ImagePatch(image)
            table_patches = image_patch.find("table")
            chair_patches = image_patch.find("chair")
            return sum(any(is_next_to(c, t) for t in table_patches) for c in chair_patches)
    """
    gap = distance(patch, other)
    if _is_same(patch, other) or gap > (patch.width + other.width) / 3:
        return False
    if "is_next_to" not in depth_ratios:
        return True
    near, far = sorted((patch.compute_depth(), other.compute_depth()))
    return far <= depth_ratios["is_next_to"] * near


@routine(IMAGE_TASKS, summary="tell whether a patch is between two others")
def is_between(patch: ImagePatch, first: ImagePatch, second: ImagePatch) -> bool:
    """Tell whether a patch is between two others.

    Its centre lies between theirs, from left to right if they are farther apart that way, else
    from bottom to top. Neither of the two is between them.

    Example:
        # the plate between the fork and the knife
        def execute_command(image):
            image_patch = ImagePatch(image)
            forks, knives = image_patch.find("fork"), image_patch.find("knife")
            plates = image_patch.find("plate") or [image_patch]
            if not forks or not knives:
                return plates[0]
            between = [p for p in plates if is_between(p, forks[0], knives[0])]
            return (between or plates)[0]
    """
    across = sorted((first.horizontal_center, second.horizontal_center))
    along = sorted((first.vertical_center, second.vertical_center))
    if _is_same(patch, first) or _is_same(patch, second):
        return False
    if across[1] - across[0] >= along[1] - along[0]:
        return across[0] < patch.horizontal_center < across[1]
    return along[0] < patch.vertical_center < along[1]


@routine(IMAGE_TASKS, api="abstract", summary="region left of a patch")
def get_patch_left_of(patch: ImagePatch) -> ImagePatch:
    """Return the region left of a patch.

    It has the full height of the image, and is empty if the patch touches the left border.

    Example:
        # the dog to the left of the gate
        def execute_command(image):
            image_patch = ImagePatch(image)
            gate_patches = image_patch.find("gate")
            region = get_patch_left_of(gate_patches[0]) if gate_patches else image_patch
            dog_patches = region.find("dog") or image_patch.find("dog")
            return dog_patches[0] if dog_patches else region
    """
    return patch._whole_image()._strip(right=patch.left)


@routine(IMAGE_TASKS, api="abstract", summary="region right of a patch")
def get_patch_right_of(patch: ImagePatch) -> ImagePatch:
    """Return the region right of a patch.

    It has the full height of the image, and is empty if the patch touches the right border.

    Example:
        # Is there a bench to the right of the fountain?
        def execute_command(image):
            fountain_patches = ImagePatch(image).find("fountain")
            if not fountain_patches:
                return False
            return get_patch_right_of(fountain_patches[0]).exists("bench")
    """
    return patch._whole_image()._strip(left=patch.right)


@routine(IMAGE_TASKS, api="abstract", summary="region above a patch")
def get_patch_above_of(patch: ImagePatch) -> ImagePatch:
    """Return the region above a patch.

    It has the full width of the image, and is empty if the patch touches the upper border.

    Example:
        # the clock above the fireplace
        def execute_command(image):
            image_patch = ImagePatch(image)
            fireplace_patches = image_patch.find("fireplace")
            region = get_patch_above_of(fireplace_patches[0]) if fireplace_patches else image_patch
            clock_patches = region.find("clock") or image_patch.find("clock")
            return clock_patches[0] if clock_patches else region
    """
    return patch._whole_image()._strip(lower=patch.upper)


@routine(IMAGE_TASKS, api="abstract", summary="region below a patch")
def get_patch_below_of(patch: ImagePatch) -> ImagePatch:
    """Return the region below a patch.

    It has the full width of the image, and is empty if the patch touches the lower border.

    Example:
        # How many boats are below the bridge?
        def execute_command(image):
            bridge_patches = ImagePatch(image).find("bridge")
            if not bridge_patches:
                return 0
            return len(get_patch_below_of(bridge_patches[0]).find("boat"))
    """
    return patch._whole_image()._strip(upper=patch.lower)


@routine(IMAGE_TASKS, api="abstract", summary="region around a patch")
def get_patch_around_of(patch: ImagePatch) -> ImagePatch:
    """Return the region around a patch.

    It is the patch enlarged by its own width to the left and right and by its own height
    upwards and downwards, cut off at the borders of the image.

    Example:
        # How many birds are near the feeder?
        def execute_command(image):
            image_patch = ImagePatch(image)
            feeder_patches = image_patch.find("feeder") or [image_patch]
            return len(get_patch_around_of(feeder_patches[0]).find("bird"))
    """
    return patch._whole_image()._strip(
        left=patch.left - patch.width,
        lower=patch.lower - patch.height,
        right=patch.right + patch.width,
        upper=patch.upper + patch.height,
    )


@routine(ANSWER_TASKS, needs="matcher")
def best_description_from_options(
    patch: ImagePatch, object_name: str, options: Sequence[str]
) -> str:
    """Describe an object by one option.

    Assume that the patch shows the object, and return the option that fits it best, word
    for word. Give at least one option.

    Example:
        # Is the fence wooden or made of metal?
        def execute_command(image):
            image_patch = ImagePatch(image)
            fence_patches = image_patch.find("fence") or [image_patch]
            return best_description_from_options(fence_patches[0], "fence", ["wooden", "metal"])
    """
    return patch.best_description_from_options(object_name, options)
