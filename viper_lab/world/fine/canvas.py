"""Drawing of the pictures of ``world-fine``: backgrounds, clutter, text, dots, lines and dials."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Pixels = NDArray[np.uint8]
Color = tuple[int, int, int]

WIDTH, HEIGHT = 1_024, 768

# Colors of marks by their names in CSS; clutter is gray enough to be far from all of them.
COLORS: dict[str, Color] = {
    "red": (255, 0, 0),
    "green": (0, 128, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "magenta": (255, 0, 255),
    "cyan": (0, 255, 255),
    "orange": (255, 165, 0),
}

LETTERS = "ACEFHKLMNPRTUXYZ"

_SLACK = 256


def background(rng: np.random.Generator, shapes: tuple[int, int] = (25, 60)) -> Pixels:
    """Return a picture of gray clutter on an uneven ground, ``uint8 [768, 1024, 3]``."""
    corners = rng.uniform(95, 185, (2, 2)) + rng.uniform(-8, 8, (3, 1, 1))
    shades = np.ascontiguousarray(corners.transpose(1, 2, 0).astype(np.uint8))
    picture: Pixels = cv2.resize(shades, (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR)  # type: ignore[assignment]
    for _ in range(int(rng.integers(*shapes))):
        color = _gray(rng)
        x, y = int(rng.integers(WIDTH)), int(rng.integers(HEIGHT))
        a, b = (int(side) for side in rng.integers(8, 70, 2))
        kind = rng.integers(3)
        if kind == 0:
            cv2.rectangle(picture, (x, y), (x + a, y + b), color, -1)
        elif kind == 1:
            angle = float(rng.uniform(0, 180))
            cv2.ellipse(picture, (x, y), (a, b), angle, 0, 360, color, -1, cv2.LINE_AA)
        else:
            end = int(rng.integers(WIDTH)), int(rng.integers(HEIGHT))
            cv2.line(picture, (x, y), end, color, int(rng.integers(1, 4)), cv2.LINE_AA)
    return picture


def noisy(picture: Pixels, rng: np.random.Generator, spread: float = 2.0) -> Pixels:
    """Return the picture with normal noise of this standard deviation."""
    row, column = (int(offset) for offset in rng.integers(0, _SLACK, 2))
    noise = _noise(spread)[row : row + HEIGHT, column : column + WIDTH]
    return cv2.add(picture, noise, dtype=cv2.CV_8U)  # type: ignore[return-value]


@cache
def _noise(spread: float) -> NDArray[np.int16]:
    """Return noise that is larger than a picture, from which parts are cut."""
    rng = np.random.default_rng(0)
    shape = (HEIGHT + _SLACK, WIDTH + _SLACK, 3)
    return np.rint(rng.normal(0, spread, shape)).astype(np.int16)


def free_place(
    rng: np.random.Generator, taken: list[tuple[float, float, float]], radius: float
) -> tuple[int, int]:
    """Return a point whose circle is inside the picture and off the circles taken; take it."""
    for _ in range(1_000):
        x = int(rng.uniform(radius + 2, WIDTH - radius - 2))
        y = int(rng.uniform(radius + 2, HEIGHT - radius - 2))
        if all(math.hypot(x - u, y - v) > radius + r for u, v, r in taken):
            taken.append((x, y, radius))
            return x, y
    raise RuntimeError("no free place is left in the picture")


def write(picture: Pixels, text: str, center: tuple[float, float], size: int, color: Color) -> None:
    """Write text of a font size around a point, in place."""
    stamp = _glyphs(text, size)
    height, width = stamp.shape
    x, y = round(center[0] - width / 2), round(center[1] - height / 2)
    part = picture[y : y + height, x : x + width]
    ink = stamp[: part.shape[0], : part.shape[1], None].astype(np.float32) / 255
    part[:] = np.rint(part * (1 - ink) + np.array(color, np.float32) * ink)


def tile(picture: Pixels, letter: str, center: tuple[int, int], side: int, color: Color) -> None:
    """Draw a square tag with a letter on it, in place."""
    x, y = center[0] - side // 2, center[1] - side // 2
    picture[y : y + side, x : x + side] = color
    ink = (0, 0, 0) if sum(color) > 300 else (255, 255, 255)
    write(picture, letter, (x + side / 2, y + side / 2), round(side * 0.95), ink)


def turned(picture: Pixels, part: Pixels, center: tuple[int, int], degrees: float) -> None:
    """Paste a part, turned counter-clockwise around its middle, in place."""
    height, width = part.shape[:2]
    side = math.ceil(math.hypot(width, height)) + 2
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1)
    matrix[:, 2] += (side - width) / 2, (side - height) / 2
    drawn = cv2.warpAffine(part, matrix, (side, side), flags=cv2.INTER_CUBIC)
    mask = cv2.warpAffine(np.full((height, width), 255, np.uint8), matrix, (side, side))
    x, y = center[0] - side // 2, center[1] - side // 2
    place = picture[y : y + side, x : x + side]
    place[mask > 127] = drawn[mask > 127]


def _gray(rng: np.random.Generator) -> tuple[float, float, float]:
    base = rng.uniform(90, 215)
    red, green, blue = (float(np.clip(base + shift, 0, 255)) for shift in rng.uniform(-18, 18, 3))
    return red, green, blue


@cache
def _glyphs(text: str, size: int) -> NDArray[np.uint8]:
    """Return the ink of a text, ``uint8 [H, W]``."""
    font: Any = ImageFont.load_default(size)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("L", (round(right - left) + 2, round(bottom - top) + 2))
    ImageDraw.Draw(image).text((1 - left, 1 - top), text, fill=255, font=font)
    return np.asarray(image)
