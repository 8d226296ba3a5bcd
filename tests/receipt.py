"""A receipt as lines of text with their places, and models that read it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viper.models.vision.roles import Pixels, TextLine

WIDTH, ROW = 400, 20


def lines_of(*rows: str, score: float = 1.0) -> list[TextLine]:
    """Rows from the top, each a text on the left and after a bar another on the right."""
    lines = []
    for number, row in enumerate(rows):
        top = 10 + number * ROW
        for text, left in zip(row.split("|"), (10, 250), strict=False):
            box = (float(left), float(top), float(left + 8 * len(text.strip())), float(top + 16))
            lines.append(TextLine(text.strip(), box, score))
    return lines


def picture_of(rows: Sequence[str]) -> Pixels:
    """A blank picture of the rows' size."""
    return np.full((20 + ROW * max(1, len(rows)), WIDTH, 3), 255, np.uint8)


RECEIPT = (
    "CORNER SHOP LTD", "12 High Street", "Date: 25/12/2018 14:05",
    "Tea | 4.00", "Bread | 5.00", "Sub total | 9.00", "GST 6% | 0.54", "Rounding | 0.01",
    "TOTAL | RM 9.55", "Cash | 10.00", "Change | 0.45", "Tax summary", "Total | 9.00",
)  # fmt: skip


class Reader:
    """The role ``ocr``: reads the same lines in every picture, and counts the pictures."""

    model_id = "reader"

    def __init__(self, lines: Sequence[TextLine]) -> None:
        self.lines, self.seen = list(lines), 0

    def read(self, pixels: Pixels) -> list[TextLine]:
        self.seen += 1
        return self.lines


class ReceiptReader(Reader):
    """A backend that a profile can name; wide pictures have nothing written in them."""

    def __init__(self, name: str) -> None:
        super().__init__(lines_of(*RECEIPT))

    def read(self, pixels: Pixels) -> list[TextLine]:
        return [] if pixels.shape[1] > pixels.shape[0] else super().read(pixels)
