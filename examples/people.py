"""How many people a photograph shows: a program of one's own, for `viper exec` and `viper apply`."""


def execute_command(image):
    return len(ImagePatch(image).find("person"))
