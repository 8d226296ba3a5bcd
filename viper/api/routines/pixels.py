"""Routines that hand pixels to programs, change pictures, and draw on them.

The parent runs them (:mod:`viper.tools.pixels`). A program holds only names of the pictures that
they make; the same change of the same pixels is computed once and always has the same name. Those
that measure pixels are in :mod:`viper.api.routines.pixel_measures`.

Each takes a patch and returns a patch of a new picture, whose corner is the patch's lower left.
Coordinates count pixels of the picture that a patch belongs to, from its lower left corner, x to
the right and y upwards.

The order of this file is the order of names in prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.api.image_patch import ImagePatch
from viper.api.registry import ALL_TASKS, routine
from viper.api.runtime import number, text
from viper.api.video_segment import VideoSegment
from viper.errors import ToolError

API = "look"

# The API of programs that compute on pixels with NumPy. The process of such a program maps the
# pictures of the query read-only, see ``docs/design/arrays.md``.
ARRAYS_API = "numpy"

# A letter of 8 pixels becomes 128 high, more than any reader of text needs; a side of 4,000 pixels
# meets the bound on the size of pictures (:mod:`viper.tools.pixels`) long before.
MAX_FACTOR = 16.0

# Wider than any structure that a blur is to leave; the cost grows with the radius.
MAX_RADIUS = 50.0

CHANNELS = ("gray", "red", "green", "blue", "hue", "saturation", "value")

# Drawings stay readable, and the arguments of a call fit into its log.
MAX_MARKS = 500
MAX_LABEL = 60
MAX_NOTE = 200


# Arrays


@routine(ALL_TASKS, api=ARRAYS_API, tool=True)
def to_array(tools: Any, patch: ImagePatch) -> NDArray[np.uint8]:
    """Return the pixels of a patch, uint8 [height, width, 3], RGB, top row first; read-only.

    Example:
        # Is the left half brighter than the right half?
        def execute_command(image):
            import numpy as np
            pixels = to_array(ImagePatch(image))
            columns = np.mean(pixels, axis=(0, 2))
            half = len(columns) // 2
            return bool_to_yesno(columns[:half].mean() > columns[half:].mean())
    """
    return tools.array(patch)


@routine(ALL_TASKS, api=ARRAYS_API, tool=True)
def to_patch(tools: Any, array: NDArray[np.uint8], patch: ImagePatch) -> ImagePatch:
    """Return a new picture made from an array; ``patch`` is where it comes from.

    The array is uint8 [height, width, 3], uint8 [height, width], or bool [height, width], where
    True is white.

    Example:
        # How many bright spots are there?
        def execute_command(image):
            image_patch = ImagePatch(image)
            bright = to_array(image_patch).mean(axis=2) > 220
            return len(components(to_patch(bright, image_patch)))
    """
    return tools.from_array(array, patch)


# Changed pictures


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


@routine(("choice",), api=API, tool=True)
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


# Drawings


@routine(ALL_TASKS, api=API, tool=True)
def draw_boxes(
    tools: Any,
    patch: ImagePatch,
    boxes: Sequence[ImagePatch],
    labels: Sequence[str] = (),
    color: str = "magenta",
) -> ImagePatch:
    """Draw the boxes of patches on a patch of the same picture, with labels if there are any.

    Example:
        # How many windows are there?
        def execute_command(image):
            image_patch = ImagePatch(image)
            windows = image_patch.find("window")
            show(draw_boxes(image_patch, windows, [str(i) for i in range(len(windows))]))
            return len(windows)
    """
    marked, place = _few(boxes, "boxes"), _corner(tools, patch)
    sides = tuple((*place(box.left, box.upper), *place(box.right, box.lower)) for box in marked)
    words = _labels(labels, len(sides))
    return tools.changed("draw_boxes", patch, sides, words, tools.color(color))


@routine(ALL_TASKS, api=API, tool=True)
def draw_lines(
    tools: Any, patch: ImagePatch, points: Sequence[tuple[float, float]], color: str = "magenta"
) -> ImagePatch:
    """Draw a line through points (x, y) on a patch.

    Example:
        # Does the left arrow point at the door?
        def execute_command(image):
            image_patch = ImagePatch(image)
            arrow = (image_patch.find("arrow") or [image_patch])[0]
            ends = [(arrow.left, arrow.lower), (arrow.right, arrow.upper)]
            return draw_lines(image_patch, ends).simple_query("Does the line reach the door?")
    """
    place = _corner(tools, patch)
    return tools.changed("draw_lines", patch, _points(points, place), tools.color(color))


@routine(ALL_TASKS, api=API, tool=True)
def draw_points(
    tools: Any,
    patch: ImagePatch,
    points: Sequence[tuple[float, float]],
    labels: Sequence[str] = (),
    color: str = "magenta",
) -> ImagePatch:
    """Mark points (x, y) on a patch, with labels if there are any.

    Example:
        # What is at the highest red dot?
        def execute_command(image):
            image_patch = ImagePatch(image)
            dots = components(threshold_color(image_patch, "red"), image_patch)
            places = [(dot["x"], dot["y"]) for dot in dots]
            marked = draw_points(image_patch, places, [str(i) for i in range(len(places))])
            return marked.simple_query("What is at the highest of the marked points?")
    """
    places = _points(points, _corner(tools, patch))
    words = _labels(labels, len(places))
    return tools.changed("draw_points", patch, places, words, tools.color(color))


@routine(ALL_TASKS, api=API, tool=True)
def draw_grid(
    tools: Any, patch: ImagePatch, columns: int = 4, rows: int = 4, color: str = "magenta"
) -> ImagePatch:
    """Draw a grid of 1 to 50 columns and rows on a patch, numbered from the upper left cell.

    Example:
        # In which cell of a grid of 4 x 3 is the dog?
        def execute_command(image):
            image_patch = ImagePatch(image)
            return draw_grid(image_patch, 4, 3).simple_query("In which cell is the dog?")
    """
    cells = (int(bounded(columns, "columns", 1, 50)), int(bounded(rows, "rows", 1, 50)))
    return tools.changed("draw_grid", patch, *cells, tools.color(color))


@routine(ALL_TASKS, api=API, tool=True)
def side_by_side(tools: Any, patches: Sequence[ImagePatch]) -> ImagePatch:
    """Join 1 to 16 patches in one picture, from left to right, each as high as the highest.

    Example:
        # Are both cups of the same color?
        def execute_command(image):
            image_patch = ImagePatch(image)
            cups = image_patch.find("cup")[:2] or [image_patch]
            return side_by_side(cups).simple_query("Are they of the same color?")
    """
    items = _few(patches, "patches")
    # a model sees about a million pixels (`MAX_PIXELS`): 250 x 250 for each of 16
    if not 1 <= len(items) <= 16:
        raise ToolError(f"patches has {len(items)} entries; expected 1 to 16")
    return tools.changed("side_by_side", tuple(items))


@routine(ALL_TASKS, api=API, tool=True)
def show(tools: Any, picture: ImagePatch, note: str = "") -> None:
    """Look at a patch: the next message holds it as a picture, with the note.

    Only the model that writes the code sees it. The trace keeps every picture that was shown.

    Example:
        # What is written on the label?
        def execute_command(image):
            image_patch = ImagePatch(image)
            label = (image_patch.find("label") or [image_patch])[0]
            show(enlarge(label, 3), "the label")
            return label.simple_query("What is written here?")
    """
    if len(text(note, "note")) > MAX_NOTE:
        raise ToolError(f"note has {len(note)} characters; at most {MAX_NOTE}")
    tools.show(picture)


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


def _corner(tools: Any, patch: ImagePatch) -> Callable[[float, float], tuple[float, float]]:
    """Return the function from a point to a pixel of the patch, from its top-left corner."""
    (left, top, *_), height = tools.box(patch), patch._handle.height
    return lambda x, y: (round(x - left, 2), round(height - y - top, 2))


def _few(values: Any, name: str) -> list[ImagePatch]:
    items = list(values)
    if len(items) > MAX_MARKS:
        raise ToolError(f"{name} has {len(items)} entries; at most {MAX_MARKS}")
    if not all(isinstance(item, ImagePatch) for item in items):
        raise ToolError(f"{name} must hold patches alone")
    return items


def _points(points: Any, place: Callable[[float, float], Any]) -> tuple[Any, ...]:
    places = tuple(place(number(x, "x"), number(y, "y")) for x, y in points)
    if len(places) > MAX_MARKS:
        raise ToolError(f"points has {len(places)} entries; at most {MAX_MARKS}")
    return places


def _labels(labels: Any, count: int) -> tuple[str, ...]:
    words = tuple(str(word)[:MAX_LABEL] for word in labels)
    if len(words) not in (0, count):
        raise ToolError(f"{len(words)} labels for {count} marks; give one for each, or none")
    return words or ("",) * count
