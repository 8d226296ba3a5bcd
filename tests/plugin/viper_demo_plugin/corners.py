"""A routine."""

from viper import ImagePatch, routine


@routine(["ground"])
def rightmost_of(list_patches: list[ImagePatch]) -> ImagePatch:
    """Choose the rightmost patch.

    Example:
        # the cup on the very right
        def execute_command(image):
            return rightmost_of(ImagePatch(image).find("cup"))
    """
    return max(list_patches, key=lambda patch: patch.horizontal_center)
