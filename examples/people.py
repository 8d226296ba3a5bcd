"""How many people a photograph shows, by a program of one's own."""


def execute_command(image):
    return len(ImagePatch(image).find("person"))
