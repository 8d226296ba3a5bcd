"""Routines that measure pixels: parts of masks, colors, histograms and profiles.

The parent runs them. Coordinates count pixels of the picture that a patch belongs to, from its
lower left corner, x to the right and y upwards.
"""

from __future__ import annotations

import math
from typing import Any

from viper.api.image_patch import ImagePatch
from viper.api.registry import ALL_TASKS, routine
from viper.api.routines.pixels import API, CHANNELS, bounded, one_of
from viper.api.runtime import number
from viper.errors import ToolError

# The API of profiles whose models see no more than boxes, colors and text.
PHOTO = "photo"

# Error of a side that two of three boxes of a detector do not exceed, as a share of the side:
# YOLOX-nano on the development photographs, 510 sides.
ERROR = 0.09

# Greatest number of parts, or of samples on a line: the result of a call then
# stays well within a message of the sandbox (512 KiB).
MOST = 1_000


@routine(ALL_TASKS, api=API, tool=True)
def components(
    tools: Any,
    mask: ImagePatch,
    of: ImagePatch | None = None,
    least_area: float = 1,
    most: int = 100,
) -> list[dict[str, Any]]:
    """List the connected white parts of a mask, largest first.

    Each is a mapping of ``patch`` (its box), ``area`` (pixels), ``x`` and ``y`` (centroid). With
    ``of``, a patch of the mask's size, boxes and centroids are places in that patch's picture.
    Parts of fewer than ``least_area`` pixels are left out; ``most`` is up to 1000.

    Example:
        # Which letter is on the blue tag?
        def execute_command(image):
            image_patch = ImagePatch(image)
            tags = components(threshold_color(image_patch, "blue"), image_patch, 40)
            tag = tags[0]["patch"] if tags else image_patch
            return enlarge(tag, 4).simple_query("Which letter is this?")
    """
    least, count = bounded(least_area, "least_area", 0, 1e9), int(bounded(most, "most", 1, MOST))
    place = PixelFrame(tools, mask, of)
    return [
        {
            "patch": place.patch(left, top, left + width, top + height),
            "area": int(area),
            "x": place.x(x),
            "y": place.y(y),
        }
        for left, top, width, height, area, x, y in tools.measured("components", mask, least, count)
    ]


@routine(ALL_TASKS, api=API, tool=True)
def contours(
    tools: Any, mask: ImagePatch, of: ImagePatch | None = None, most: int = 20
) -> list[list[tuple[float, float]]]:
    """List the outer contours of a mask's white parts, longest first, as points (x, y).

    Points on straight lines are left out, and a contour has at most 500. ``of`` as for
    ``components``.

    Example:
        # Where does the red line end on the right?
        def execute_command(image):
            image_patch = ImagePatch(image)
            lines = contours(threshold_color(image_patch, "red"), image_patch)
            points = [point for line in lines for point in line]
            x, y = max(points) if points else (image_patch.right, image_patch.upper)
            end = image_patch.crop(x - 40, y - 40, x + 40, y + 40)
            return end.simple_query("What is here?")
    """
    place = PixelFrame(tools, mask, of)
    parts = tools.measured("contours", mask, int(bounded(most, "most", 1, MOST)))
    return [[(place.x(x), place.y(y)) for x, y in part] for part in parts]


@routine(ALL_TASKS, api=API, tool=True)
def histogram(tools: Any, patch: ImagePatch, bins: int = 8, channel: str = "gray") -> list[int]:
    """Count the pixels of a patch in equal parts of the range 0 to 255, darkest first.

    ``bins`` is from 2 to 256; ``channel`` as for ``grayscale``.

    Example:
        # Was the picture taken at night?
        def execute_command(image):
            image_patch = ImagePatch(image)
            counts = histogram(image_patch, 4)
            return bool_to_yesno(counts[0] > sum(counts[1:]))
    """
    count, name = int(bounded(bins, "bins", 2, 256)), one_of(channel, "channel", CHANNELS)
    return list(tools.measured("histogram", patch, count, name))


@routine(ALL_TASKS, api=API, tool=True)
def mean_color(tools: Any, patch: ImagePatch) -> tuple[int, int, int]:
    """Return the mean color of a patch as (red, green, blue), each from 0 to 255.

    Example:
        # Is the left half brighter than the right half?
        def execute_command(image):
            image_patch = ImagePatch(image)
            middle, height = image_patch.width / 2, image_patch.height
            left = mean_color(image_patch.crop(0, 0, middle, height))
            right = mean_color(image_patch.crop(middle, 0, image_patch.width, height))
            return bool_to_yesno(sum(left) > sum(right))
    """
    return tools.measured("mean_color", patch)  # type: ignore[no-any-return]


@routine(ALL_TASKS, api=PHOTO, tool=True)
def measure(tools: Any, patch: ImagePatch) -> dict[str, Any]:
    """Measure a patch: a mapping of ``color``, ``share``, ``width``, ``height`` and ``error``.

    ``color`` is one of eleven names and ``share`` the part of the patch's middle that has it, 0 to
    1. The sides are pixels; two of three are right within ``error`` pixels.

    Example:
        # What color is the car?
        def execute_command(image):
            image_patch = ImagePatch(image)
            cars = image_patch.find("car")
            return measure(cars[0])["color"] if cars else "no car"
    """
    color, share = tools.measured("color", patch)
    sides = {"width": round(patch.width), "height": round(patch.height)}
    return {"color": color, "share": share, **sides, "error": round(max(sides.values()) * ERROR, 1)}


@routine(ALL_TASKS, api=API, tool=True)
def color_at(tools: Any, patch: ImagePatch, x: float, y: float) -> tuple[int, int, int]:
    """Return the color at a point of the patch's picture as (red, green, blue).

    Example:
        # Is the lamp red in its middle?
        def execute_command(image):
            image_patch = ImagePatch(image)
            lamp = (image_patch.find("lamp") or [image_patch])[0]
            red, green, blue = color_at(lamp, lamp.horizontal_center, lamp.vertical_center)
            return bool_to_yesno(red > 2 * max(green, blue))
    """
    place = (PixelFrame(tools, patch).pixel(number(x, "x"), number(y, "y")),)
    red, green, blue = (tools.measured("samples", patch, place, name)[0] for name in CHANNELS[1:4])
    return red, green, blue


@routine(ALL_TASKS, api=API, tool=True)
def line_profile(
    tools: Any,
    patch: ImagePatch,
    x0: float,
    y0: float,
    x1: float,
    y1: float,
    samples: int = 64,
    channel: str = "gray",
) -> list[int]:
    """Sample a channel along the line from (x0, y0) to (x1, y1), 2 to 1000 times, ends included.

    Example:
        # How many white stripes are there along the middle?
        def execute_command(image):
            image_patch = ImagePatch(image)
            y = image_patch.vertical_center
            values = line_profile(image_patch, 0, y, image_patch.width, y, 200)
            return sum(a <= 127 < b for a, b in zip(values, values[1:]))
    """
    count, name = int(bounded(samples, "samples", 2, MOST)), one_of(channel, "channel", CHANNELS)
    xs, ys = (number(x0, "x0"), number(x1, "x1")), (number(y0, "y0"), number(y1, "y1"))
    place = PixelFrame(tools, patch)
    shares = [step / (count - 1) for step in range(count)]
    places = tuple(
        place.pixel(xs[0] + (xs[1] - xs[0]) * share, ys[0] + (ys[1] - ys[0]) * share)
        for share in shares
    )
    return list(tools.measured("samples", patch, places, name))


@routine(ALL_TASKS, api=API, tool=True)
def pixel_count(
    tools: Any, patch: ImagePatch, low: float = 128, high: float = 255, channel: str = "gray"
) -> int:
    """Count the pixels of a patch whose channel is from ``low`` to ``high``.

    Example:
        # Is more than half of the picture green?
        def execute_command(image):
            image_patch = ImagePatch(image)
            green = pixel_count(threshold_color(image_patch, "green"))
            return bool_to_yesno(green > image_patch.area / 2)
    """
    name = one_of(channel, "channel", CHANNELS)
    limits = (bounded(low, "low", 0, 255), bounded(high, "high", 0, 255))
    return int(tools.measured("pixel_count", patch, *limits, name))


class PixelFrame:
    """Conversion between pixels of a part and coordinates of the picture that it belongs to.

    Args:
        part: the part, or a mask that was made from it.
        of: the patch that the mask was made from.

    Raises:
        ToolError: the two differ in size.
    """

    def __init__(self, tools: Any, part: ImagePatch, of: ImagePatch | None = None) -> None:
        patch = part if of is None else of
        self._handle = patch._handle
        self._box: tuple[int, int, int, int] = tools.box(patch)
        sizes = [(b[2] - b[0], b[3] - b[1]) for b in (tools.box(part), self._box)]
        if sizes[0] != sizes[1]:
            raise ToolError(
                f"the mask has {sizes[0][0]} x {sizes[0][1]} pixels and `of` {sizes[1][0]} x "
                f"{sizes[1][1]}; give the patch that the mask was made from"
            )

    def x(self, column: float) -> float:
        """Return the x of a column of the part; a pixel's place is its middle."""
        return round(self._box[0] + column + 0.5, 2)

    def y(self, row: float) -> float:
        """Return the y of a row of the part."""
        return round(self._handle.height - (self._box[1] + row + 0.5), 2)

    def patch(self, left: float, top: float, right: float, bottom: float) -> ImagePatch:
        """Return a pixel box of the part, from its top-left corner, as a patch of the picture."""
        x0, y0, height = *self._box[:2], self._handle.height
        return ImagePatch._at(
            self._handle, x0 + left, height - (y0 + bottom), x0 + right, height - (y0 + top)
        )

    def pixel(self, x: float, y: float) -> tuple[int, int]:
        """Return row and column of a point in the part.

        Raises:
            ToolError: the point lies outside it.
        """
        left, top, right, bottom = self._box
        column, row = math.floor(x), math.ceil(self._handle.height - y) - 1
        row = top if y == self._handle.height - top else row
        column = right - 1 if x == right else column
        if not (left <= column < right and top <= row < bottom):
            raise ToolError(f"the point ({x:g}, {y:g}) is outside the patch")
        return row - top, column - left
