"""Computations on pixels behind the routines of API ``look``, with OpenCV and Pillow.

A picture is ``uint8 [H, W, 3]`` RGB, read-only, top row first. A mask is a picture whose gray is
above 127 where it is white. The routine of the same name (``api/routines/pixels.py``) has checked
the arguments and calls ``Tools.changed`` or ``Tools.measured``, which find the computation here
(:data:`CHANGES`, :data:`MEASURES`) and cache its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from viper.api.routines.pixels import CHANNELS
from viper.errors import ToolError
from viper.models.libraries import Image, cv2
from viper.models.vision.colors import COLORS, color_chances
from viper.models.vision.roles import Pixels

# Number of pixels of a picture that a routine may make: programs may call it in loops, and 12 MB
# each stay within the limit on edited pictures for some dozens.
MAX_MADE_PIXELS = 4_000_000

# Number of points of a contour: what a program or a reader can use, however ragged the mask.
MAX_POINTS = 500

# Pixels between pictures that stand side by side, so that a model sees where one ends.
GAP = 8

# Color of the corners of a rotated picture: gray, which models take for no object.
FILL = (128, 128, 128)

Point = tuple[float, float]
Color = tuple[int, int, int]


def enlarge(pixels: Pixels, factor: float) -> Pixels:
    """Resize a picture by bicubic interpolation."""
    height, width = pixels.shape[:2]
    size = max(1, round(width * factor)), max(1, round(height * factor))
    _check_size(*size)
    return cv2.resize(pixels, size, interpolation=cv2.INTER_CUBIC)  # type: ignore[return-value]


def rotate(pixels: Pixels, degrees: float) -> Pixels:
    """Rotate a picture counter-clockwise; the result holds all of it."""
    (height, width), angle = pixels.shape[:2], np.deg2rad(degrees)
    cosine, sine = abs(np.cos(angle)), abs(np.sin(angle))
    _check_size(round(width * cosine + height * sine), round(width * sine + height * cosine))
    turned = Image.fromarray(pixels).rotate(
        degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=FILL
    )
    return np.asarray(turned)


def flip(pixels: Pixels, axis: str) -> Pixels:
    """Mirror a picture, ``horizontal`` or ``vertical``."""
    return pixels[:, ::-1] if axis == "horizontal" else pixels[::-1]


def contrast(pixels: Pixels, cutoff: float) -> Pixels:
    """Stretch the values of each channel, without a percentage of the darkest and the brightest."""
    from PIL import ImageOps

    return np.asarray(ImageOps.autocontrast(Image.fromarray(pixels), cutoff=cutoff))


def grayscale(pixels: Pixels, channel: str) -> Pixels:
    """Return a channel as a gray picture."""
    return _picture(_plane(pixels, channel))


def blur(pixels: Pixels, radius: float) -> Pixels:
    """Blur a picture by a Gaussian of this standard deviation."""
    return cv2.GaussianBlur(pixels, (0, 0), radius)  # type: ignore[return-value]


def edges(pixels: Pixels, low: float, high: float) -> Pixels:
    """Return Canny's edges as a mask."""
    return _picture(cv2.Canny(pixels, low, high))


def threshold(pixels: Pixels, low: float, high: float, channel: str) -> Pixels:
    """Return the mask of a channel's range, both ends included."""
    values = _plane(pixels, channel)
    return _picture(((values >= low) & (values <= high)) * np.uint8(255))


def threshold_color(pixels: Pixels, color: Color, tolerance: float) -> Pixels:
    """Return the mask of the pixels within a distance of a color in RGB."""
    table = (np.arange(256, dtype=np.float32)[:, None] - np.array(color, np.float32)) ** 2
    squares = cv2.transform(cv2.LUT(pixels, table[None]), np.ones((1, 3), np.float32))
    return _picture((squares <= tolerance * tolerance) * np.uint8(255))


def difference(pixels: Pixels, other: Pixels) -> Pixels:
    """Return the absolute difference of two pictures of one size."""
    _check_same_size(pixels, other)
    return cv2.absdiff(pixels, other)  # type: ignore[return-value]


def overlay(pixels: Pixels, mask: Pixels, color: Color) -> Pixels:
    """Mix a picture with a color where a mask of its size is white."""
    _check_same_size(pixels, mask)
    mixed = pixels // 2 + np.array(color, np.uint8) // 2
    return np.where((_plane(mask, "gray") > 127)[..., None], mixed, pixels)


def side_by_side(*parts: Pixels) -> Pixels:
    """Join pictures from left to right, scaled to the height of the highest."""
    height = max(part.shape[0] for part in parts)
    widths = [max(1, round(part.shape[1] * height / part.shape[0])) for part in parts]
    _check_size(sum(widths) + GAP * (len(parts) - 1), height)
    gap = np.full((height, GAP, 3), 255, np.uint8)
    row: list[Any] = []
    for part, width in zip(parts, widths, strict=True):
        row += [gap, cv2.resize(part, (width, height), interpolation=cv2.INTER_AREA)]
    return np.concatenate(row[1:], axis=1)


def draw_boxes(
    pixels: Pixels, boxes: Sequence[tuple[float, ...]], labels: Sequence[str], color: Color
) -> Pixels:
    """Draw boxes (x0, y0, x1, y1) in pixels from the top-left corner, with labels."""
    picture, canvas = _canvas(pixels)
    for (x0, y0, x1, y1), label in zip(boxes, labels, strict=True):
        canvas.rectangle((x0, y0, max(x0, x1 - 1), max(y0, y1 - 1)), outline=color, width=2)
        canvas.text((x0 + 3, y0 + 1), label, fill=color)
    return np.asarray(picture)


def draw_lines(pixels: Pixels, points: Sequence[Point], color: Color) -> Pixels:
    """Draw a line through points in pixels from the top-left corner."""
    picture, canvas = _canvas(pixels)
    canvas.line(list(points), fill=color, width=2)
    return np.asarray(picture)


def draw_points(
    pixels: Pixels, points: Sequence[Point], labels: Sequence[str], color: Color
) -> Pixels:
    """Mark points in pixels from the top-left corner, with labels."""
    picture, canvas = _canvas(pixels)
    for (x, y), label in zip(points, labels, strict=True):
        canvas.ellipse((x - 3, y - 3, x + 3, y + 3), outline=color, width=2)
        canvas.text((x + 5, y - 6), label, fill=color)
    return np.asarray(picture)


def draw_grid(pixels: Pixels, columns: int, rows: int, color: Color) -> Pixels:
    """Draw a grid with numbered cells."""
    picture, canvas = _canvas(pixels)
    height, width = pixels.shape[:2]
    for cell in range(columns * rows):
        x, y = width * (cell % columns) / columns, height * (cell // columns) / rows
        canvas.line([(x, 0), (x, height)], fill=color)
        canvas.line([(0, y), (width, y)], fill=color)
        canvas.text((x + 3, y + 2), str(cell), fill=color)
    return np.asarray(picture)


def components(pixels: Pixels, least_area: float, most: int) -> list[tuple[float, ...]]:
    """Return (left, top, width, height, area, x, y) of each white part, largest first."""
    _, _, stats, centres = cv2.connectedComponentsWithStats(_white(pixels), connectivity=8)
    areas = stats[1:, cv2.CC_STAT_AREA]
    order = [1 + int(i) for i in np.argsort(-areas, kind="stable") if areas[i] >= least_area]
    return [(*map(int, stats[i]), *map(float, centres[i])) for i in order[:most]]


def contours(pixels: Pixels, most: int) -> list[list[Point]]:
    """Return the outer contours of white parts as points (column, row), longest first."""
    parts, _ = cv2.findContours(_white(pixels), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    longest = sorted(parts, key=len, reverse=True)[:most]
    return [
        [(float(x), float(y)) for x, y in part[:: 1 + len(part) // MAX_POINTS, 0]]
        for part in longest
    ]


def histogram(pixels: Pixels, bins: int, channel: str) -> list[int]:
    """Return the number of pixels in equal parts of a channel's range."""
    counts, _ = np.histogram(_plane(pixels, channel), bins=bins, range=(0, 256))
    return [int(count) for count in counts]


def mean_color(pixels: Pixels) -> Color:
    """Return the mean of each channel, rounded."""
    red, green, blue = (round(value) for value in cv2.mean(pixels)[:3])
    return red, green, blue


def color(pixels: Pixels) -> tuple[str, float]:
    """Return the name of the color that an object most probably has, and its share."""
    chances, shares = color_chances(pixels)
    best = int(chances.argmax())
    return COLORS[best], round(float(shares[best]), 2)


def samples(pixels: Pixels, places: Sequence[tuple[int, int]], channel: str) -> list[int]:
    """Return the values of a channel at places (row, column)."""
    values = _plane(pixels, channel)
    return [int(values[place]) for place in places]


def pixel_count(pixels: Pixels, low: float, high: float, channel: str) -> int:
    """Return the number of pixels whose channel is in a range, both ends included."""
    values = _plane(pixels, channel)
    return int(np.count_nonzero((values >= low) & (values <= high)))


# Computations that give a picture, by name.
CHANGES: Mapping[str, Callable[..., Pixels]] = {
    change.__name__: change
    for change in (
        enlarge, rotate, flip, contrast, grayscale, blur, edges, threshold, threshold_color,
        difference, overlay, side_by_side, draw_boxes, draw_lines, draw_points, draw_grid,
    )
}  # fmt: skip

# Computations that give plain values, by name.
MEASURES: Mapping[str, Callable[..., Any]] = {
    measure.__name__: measure
    for measure in (components, contours, histogram, mean_color, color, samples, pixel_count)
}


def color_of(value: Any) -> Color:
    """Return a color by name, ``#rrggbb`` or three numbers as (red, green, blue).

    Raises:
        ToolError: it is none of them.
    """
    from PIL import ImageColor

    try:
        parts = ImageColor.getrgb(value[:40])[:3] if isinstance(value, str) else tuple(value)
        red, green, blue = (int(part) for part in parts)
        if min(red, green, blue) >= 0 and max(red, green, blue) <= 255:
            return red, green, blue
    except (ValueError, TypeError, OverflowError):
        pass
    raise ToolError(
        f"color is {str(value)[:40]!r}; expected a name, '#rrggbb' or (red, green, blue) to 255"
    )


def _plane(pixels: Pixels, channel: str) -> Pixels:
    """Return one channel, ``uint8 [H, W]``."""
    if channel == "gray":
        return cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)  # type: ignore[return-value]
    place = CHANNELS.index(channel) - 1
    # red, green and blue come first; hue, saturation and value follow
    if place < 3:
        return pixels[..., place]
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)[..., place - 3]  # type: ignore[return-value]


def _white(pixels: Pixels) -> Pixels:
    return (_plane(pixels, "gray") > 127).astype(np.uint8)


def _picture(values: Any) -> Pixels:
    return cv2.cvtColor(values, cv2.COLOR_GRAY2RGB)  # type: ignore[no-any-return]


def picture_of(array: Any) -> Pixels:
    """Return an array of a program as a picture; grays and masks get three channels.

    Raises:
        ToolError: it has another type or shape, no pixels, or too many.
    """
    if not isinstance(array, np.ndarray):
        raise ToolError(f"expected an array of pixels, got {type(array).__name__}")
    kind, shape = array.dtype, list(array.shape)
    if kind not in (np.uint8, np.bool_) or shape[2:] not in ([], [3]) or len(shape) < 2:
        expected = "uint8 [H, W, 3], uint8 [H, W] or bool [H, W]"
        raise ToolError(f"expected {expected}, got {kind} {shape}")
    if not array.size:
        raise ToolError(f"the array {shape} has no pixels")
    _check_size(shape[1], shape[0])
    pixels = array.astype(np.uint8) * 255 if kind == np.bool_ else np.array(array)
    return pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=2)


def _canvas(pixels: Pixels) -> tuple[Any, Any]:
    from PIL import ImageDraw

    picture = Image.fromarray(np.ascontiguousarray(pixels))
    return picture, ImageDraw.Draw(picture)


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_MADE_PIXELS:
        raise ToolError(
            f"the picture would have {width} x {height} pixels; at most {MAX_MADE_PIXELS:,}: "
            "take a smaller part or a smaller factor"
        )


def _check_same_size(first: Pixels, second: Pixels) -> None:
    if first.shape != second.shape:
        sizes = [f"{each.shape[1]} x {each.shape[0]}" for each in (first, second)]
        raise ToolError(f"the patches have {sizes[0]} and {sizes[1]} pixels; expected one size")
