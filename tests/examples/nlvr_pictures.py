"""Pictures in the manner of NLVR, drawn anew, and a small data set of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

FOLDER = Path(__file__).parents[2] / "examples" / "nlvr"
PROFILE = FOLDER / "profile.toml"

COLORS = {"yellow": "Yellow", "black": "Black", "blue": "#0099ff"}
_FINE = 8

Item = tuple[str, str, int, int, int]
"""Colour, shape, left and top in the box, and side in pixels."""

TOWER: Sequence[Item] = [("blue", "square", 40, 80, 20), ("yellow", "square", 40, 59, 20)]
SCATTERED: Sequence[Item] = [
    ("black", "circle", 0, 50, 30),
    ("yellow", "triangle", 60, 90, 10),
    ("blue", "square", 60, 5, 20),
]
SINGLE: Sequence[Item] = [("black", "square", 40, 80, 20)]


def picture(boxes: Sequence[Sequence[Item]]) -> np.ndarray[Any, Any]:
    """Return a picture ``uint8 [100, 400, 3]`` with soft edges."""
    canvas = Image.new("RGB", (400 * _FINE, 100 * _FINE), (128, 128, 128))
    draw = ImageDraw.Draw(canvas)
    for number, items in enumerate(boxes):
        start = 150 * number
        draw.rectangle(_fine(start, 0, start + 100, 100), (211, 211, 211))
        for color, shape, x, y, side in items:
            left, top, right, bottom = _fine(start + x, y, start + x + side, y + side)
            fill = COLORS[color].lower()
            if shape == "square":
                draw.rectangle((left, top, right, bottom), fill)
            elif shape == "circle":
                draw.ellipse((left, top, right, bottom), fill)
            else:
                draw.polygon([(left, bottom), (right, bottom), ((left + right) / 2, top)], fill)
    return np.asarray(canvas.resize((400, 100), Image.Resampling.BOX))


def _fine(x0: int, y0: int, x1: int, y1: int) -> tuple[int, int, int, int]:
    return x0 * _FINE, y0 * _FINE, x1 * _FINE - 1, y1 * _FINE - 1


def write_set(root: Path, labelled: Sequence[tuple[str, bool, Sequence[Sequence[Item]]]]) -> Path:
    """Write sentences with labels and pictures as the split ``dev`` of NLVR."""
    folder = root / "dev" / "images" / "0"
    folder.mkdir(parents=True)
    lines = []
    for number, (sentence, label, boxes) in enumerate(labelled):
        for k, order in enumerate(itertools.permutations(range(3))):
            pixels = picture([boxes[place] for place in order])
            Image.fromarray(pixels).save(folder / f"dev-{number}-0-{k}.png")
        described = [
            [
                {"color": COLORS[color], "type": shape, "x_loc": x, "y_loc": y, "size": side}
                for color, shape, x, y, side in items
            ]
            for items in boxes
        ]
        lines.append({"sentence": sentence, "label": str(label).lower(), "directory": "0",
                      "identifier": f"{number}-0", "structured_rep": described})  # fmt: skip
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (root / "dev" / "dev.json").write_text(text, encoding="utf-8")
    return root
