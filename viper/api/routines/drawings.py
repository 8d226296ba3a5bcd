"""Routines that draw on pictures, join them, and show them to a model that sees.

The parent runs them. Coordinates count pixels of the picture that a patch belongs to, from its
lower left corner, x to the right and y upwards. A drawing is a new picture of the patch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from viper.api.image_patch import ImagePatch
from viper.api.registry import ALL_TASKS, routine
from viper.api.routines.pixels import API, bounded
from viper.api.runtime import number, text
from viper.errors import ToolError

MAX_MARKS = 500
MAX_LABEL = 60
MAX_NOTE = 200


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
    corners = [(box.left, box.lower, box.right, box.upper) for box in _few(boxes, "boxes")]
    place = _corner(tools, patch)
    sides = tuple(
        (*place(left, upper), *place(right, lower)) for left, lower, right, upper in corners
    )
    return tools.changed(
        "draw_boxes", patch, sides, _labels(labels, len(sides)), tools.color(color)
    )


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
