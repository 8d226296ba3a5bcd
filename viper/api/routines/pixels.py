"""Routines that change pictures: enlarge, turn, stretch, filter and compare them.

The parent runs them (:mod:`viper.tools.pixels`). A program holds only names of the pictures that
they make; the same change of the same pixels is computed once and always has the same name.

Each takes a patch and returns a patch of a new picture, whose corner is the patch's lower left.
Coordinates count pixels of the picture that a patch belongs to, from its lower left corner, x to
the right and y upwards.
"""

from __future__ import annotations

from typing import Any

from viper.api.image_patch import ImagePatch
from viper.api.registry import ALL_TASKS, routine
from viper.api.runtime import number, text
from viper.api.video_segment import VideoSegment
from viper.errors import ToolError

API = "look"

MAX_FACTOR = 16.0
MAX_RADIUS = 50.0

CHANNELS = ("gray", "red", "green", "blue", "hue", "saturation", "value")


@routine(ALL_TASKS, api=API, tool=True)
def enlarge(tools: Any, patch: ImagePatch, factor: float = 2) -> ImagePatch:
    """Enlarge a patch.

    ``factor`` is from 1 to 16. Coordinates in the result are multiplied by it.

    Example:
        # Which letter is on the small red tag?
        def execute_command(image):
            image_patch = ImagePatch(image)
            mask = threshold_color(image_patch, "red")
            tags = components(mask, image_patch)
            tag = tags[0]["patch"] if tags else image_patch
            return enlarge(tag, 6).simple_query("Which letter is this?")
    """
    return tools.changed("enlarge", patch, bounded(factor, "factor", 1, MAX_FACTOR))


@routine(ALL_TASKS, api=API, tool=True)
def rotate(tools: Any, patch: ImagePatch, degrees: float) -> ImagePatch:
    """Rotate a patch counter-clockwise by any angle.

    The result holds the whole patch; its corners are filled with gray.

    Example:
        # What does the sign that leans to the left say?
        def execute_command(image):
            image_patch = ImagePatch(image)
            sign = (image_patch.find("sign") or [image_patch])[0]
            return rotate(sign, -30).simple_query("What does the sign say?")
    """
    return tools.changed("rotate", patch, bounded(degrees, "degrees", -360, 360))


@routine(ALL_TASKS, api=API, tool=True)
def flip(tools: Any, patch: ImagePatch, axis: str = "horizontal") -> ImagePatch:
    """Mirror a patch, ``horizontal`` (left and right) or ``vertical`` (top and bottom).

    Example:
        # What does the sign in the mirror say?
        def execute_command(image):
            image_patch = ImagePatch(image)
            mirror = (image_patch.find("mirror") or [image_patch])[0]
            return flip(mirror).simple_query("What does the sign say?")
    """
    return tools.changed("flip", patch, one_of(axis, "axis", ("horizontal", "vertical")))


@routine(ALL_TASKS, api=API, tool=True)
def contrast(tools: Any, patch: ImagePatch, cutoff: float = 1) -> ImagePatch:
    """Stretch the contrast of a patch to the full range.

    ``cutoff`` is the percentage of the darkest and of the brightest pixels, from 0 to 49, that
    become black and white.

    Example:
        # Which letter is hidden in the gray panel?
        def execute_command(image):
            image_patch = ImagePatch(image)
            return contrast(image_patch).simple_query("Which letter is this?")
    """
    return tools.changed("contrast", patch, bounded(cutoff, "cutoff", 0, 49))


@routine(ALL_TASKS, api=API, tool=True)
def grayscale(tools: Any, patch: ImagePatch, channel: str = "gray") -> ImagePatch:
    """Turn a patch into gray, by brightness or by one channel.

    ``channel`` is ``gray``, ``red``, ``green``, ``blue``, ``hue`` (0 to 179, red is 0),
    ``saturation`` or ``value``.

    Example:
        # What is printed in red on the green card?
        def execute_command(image):
            image_patch = ImagePatch(image)
            return grayscale(image_patch, "red").simple_query("What is printed?")
    """
    return tools.changed("grayscale", patch, one_of(channel, "channel", CHANNELS))


@routine(ALL_TASKS, api=API, tool=True)
def blur(tools: Any, patch: ImagePatch, radius: float = 2) -> ImagePatch:
    """Blur a patch by a Gaussian of ``radius`` pixels, up to 50.

    Example:
        # How many dark blots are there?
        def execute_command(image):
            image_patch = ImagePatch(image)
            return len(components(threshold(blur(image_patch, 3), 0, 90)))
    """
    return tools.changed("blur", patch, bounded(radius, "radius", 0.1, MAX_RADIUS))


@routine(ALL_TASKS, api=API, tool=True)
def edges(tools: Any, patch: ImagePatch, low: float = 50, high: float = 150) -> ImagePatch:
    """Draw the edges of a patch in white on black.

    ``low`` and ``high`` are Canny's thresholds of the gradient, from 0 to 2000.

    Example:
        # Is there a scratch on the plate?
        def execute_command(image):
            image_patch = ImagePatch(image)
            plate = (image_patch.find("plate") or [image_patch])[0]
            lines = components(edges(plate, 10, 30), plate, 40)
            return bool_to_yesno(len(lines) > 1)
    """
    limits = (bounded(low, "low", 0, 2_000), bounded(high, "high", 0, 2_000))
    return tools.changed("edges", patch, *limits)


@routine(ALL_TASKS, api=API, tool=True)
def threshold(
    tools: Any, patch: ImagePatch, low: float, high: float = 255, channel: str = "gray"
) -> ImagePatch:
    """Return a mask: white where a channel is from ``low`` to ``high``, black elsewhere.

    Both are from 0 to 255; ``channel`` as for ``grayscale``.

    Example:
        # How many dark dots are there?
        def execute_command(image):
            image_patch = ImagePatch(image)
            return len(components(threshold(image_patch, 0, 60), image_patch, 4))
    """
    name = one_of(channel, "channel", CHANNELS)
    limits = (bounded(low, "low", 0, 255), bounded(high, "high", 0, 255))
    return tools.changed("threshold", patch, *limits, name)


@routine(ALL_TASKS, api=API, tool=True)
def threshold_color(
    tools: Any, patch: ImagePatch, color: str | tuple[int, int, int], tolerance: float = 80
) -> ImagePatch:
    """Return a mask: white where a patch has about this color, black elsewhere.

    ``color`` is a name, ``#rrggbb`` or (red, green, blue) from 0 to 255; ``tolerance`` is the
    largest distance in that space, from 0 to 442.

    Example:
        # How many green dots are there?
        def execute_command(image):
            image_patch = ImagePatch(image)
            return len(components(threshold_color(image_patch, "green")))
    """
    most = bounded(tolerance, "tolerance", 0, 442)
    return tools.changed("threshold_color", patch, tools.color(color), most)


@routine(ALL_TASKS, api=API, tool=True)
def difference(tools: Any, first: ImagePatch, second: ImagePatch) -> ImagePatch:
    """Return the difference of two patches of the same size: black where they are equal.

    Example:
        # What is new in the second picture?
        def execute_command(image_list):
            first, second = (ImagePatch(one) for one in image_list)
            places = components(threshold(blur(difference(first, second)), 30), second)
            return (places[0]["patch"] if places else second).simple_query("What is this?")
    """
    return tools.changed("difference", (first, second))


@routine(ALL_TASKS, api=API, tool=True)
def overlay(
    tools: Any, patch: ImagePatch, mask: ImagePatch, color: str | tuple[int, int, int] = "red"
) -> ImagePatch:
    """Tint a patch where a mask of the same size is white.

    Example:
        # What is in the area that the blue mask covers?
        def execute_command(image):
            image_patch = ImagePatch(image)
            mask = threshold_color(image_patch, "blue")
            return overlay(image_patch, mask, "white").simple_query("What is in the white area?")
    """
    return tools.changed("overlay", (patch, mask), tools.color(color))


@routine(ALL_TASKS, api=API, tool=True)
def frame_difference(
    tools: Any, video_segment: VideoSegment, first: int, second: int
) -> ImagePatch:
    """Return the difference of two frames of a video segment, counted from its start.

    Example:
        # Does anything move at the beginning?
        def execute_command(video):
            video_segment = VideoSegment(video)
            moved = threshold(frame_difference(video_segment, 0, 5), 20)
            return bool_to_yesno(len(components(moved)) > 0)
    """
    return difference(tools, *(ImagePatch(video_segment, index) for index in (first, second)))


def bounded(value: Any, name: str, least: float, most: float) -> float:
    """Return a number within limits.

    Raises:
        ToolError: it is outside them.
        TypeError: it is no number.
    """
    checked = float(number(value, name))
    if not least <= checked <= most:
        raise ToolError(f"{name} is {checked:g}; expected {least:g} to {most:g}")
    return checked


def one_of(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return a text that is one of the choices.

    Raises:
        ToolError: it is not.
    """
    if text(value, name) not in choices:
        raise ToolError(f"{name} is {value[:40]!r}; expected {', '.join(choices)}")
    return str(value)
