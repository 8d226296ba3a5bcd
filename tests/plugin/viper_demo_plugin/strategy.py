"""A strategy that writes the same program for every query, with the package's routine."""

from viper.strategies.program import run_program
from viper.strategies.writing import Written

PROGRAM = """
def execute_command(image):
    return rightmost_of(ImagePatch(image).find("cup"))
"""


class FirstBox:
    name = "first_box"

    def trials(self, components, context):
        yield from run_program(components, context, Written(PROGRAM, "", "first", None, None))
