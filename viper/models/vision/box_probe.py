"""A drawing with one object at a known place, which shows how a model writes boxes.

A model that counts in other units than a detector reads, or writes y first, gives boxes of other
places, which no later step can notice.
"""

from __future__ import annotations

import numpy as np

from viper.models.vision.boxes import overlaps
from viper.models.vision.roles import Detector

# Multiples of 28, so that a detector in pixels shows the drawing as it is. No wrong reading of the
# box overlaps it, and each lies within the picture.
SIZE = (672, 448)
BOX = (302, 45, 403, 134)
NAME = "red circle"

# A drawn circle is easy to find; boxes of models are a few pixels off.
LEAST_IOU = 0.5


def probe_boxes(detector: Detector) -> str:
    """Ask a detector for the circle, in one request, and return what to change, "" for nothing.

    Raises:
        ToolError: the reply holds no boxes that can be read.
    """
    from PIL import Image, ImageDraw

    drawing = Image.new("RGB", SIZE, "ivory")
    ImageDraw.Draw(drawing).ellipse(BOX, fill="red")
    (encoding,) = detector.encode([np.asarray(drawing)])
    (boxes,) = detector.detect(encoding, [NAME])
    found = np.array([each.box for each in boxes], np.float32).reshape(-1, 4)
    sides = np.array(SIZE * 2, np.float32)
    readings = {
        "": found,
        "x and y are exchanged: set its option y_first to true, or to false if it is true": (
            (found / sides)[:, [1, 0, 3, 2]] * sides
        ),
        "the model writes pixels: set its option in_pixels = true": found / sides * 1000,
        "the model counts to 1000: set its option in_pixels = false": found * sides / 1000,
    }
    truth = np.array([BOX], np.float32)
    for advice, read in readings.items():
        if overlaps(truth, read).max(initial=0.0) >= LEAST_IOU:
            return advice
    return f"none of its {len(boxes)} boxes is near the circle; give the role to another model"
