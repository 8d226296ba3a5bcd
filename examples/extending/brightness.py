"""Measure how bright objects are."""

import numpy as np

from viper import ImagePatch, routine


@routine(["question"], tool=True)
def brightness(tools, patch: ImagePatch) -> float:
    """How bright a patch is, from 0 to 255.

    Example:
        # is the cube brighter than the ball?
        def execute_command(image):
            image_patch = ImagePatch(image)
            cube, ball = image_patch.find("cube")[0], image_patch.find("ball")[0]
            return bool_to_yesno(brightness(cube) > brightness(ball))
    """
    red, green, blue = np.moveaxis(tools.pixels(patch).astype(float), -1, 0)
    return float((0.299 * red + 0.587 * green + 0.114 * blue).mean())
