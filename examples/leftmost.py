"""Which object stands leftmost: a program of one's own, for `viper exec`."""


def execute_command(image):
    image_patch = ImagePatch(image)
    things = image_patch.find("thing")
    return sort_patches_left_to_right(things)[0]
