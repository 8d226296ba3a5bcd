"""Part ``cells``: red cells of blood smears, counted by ``find_like`` from three marked cells.

The errors are compared with those of answering the mean of the development smears. Annotators of
this set left out most cells that overlap or are cut, and not alike in all pictures: the count by
the routine and a count corrected by a line that was fitted on development smears stand beside each
other. The corrected count is of all boxes that may be cells (:data:`LIKELY`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing

import numpy as np

from viper.data.coco_file import CocoFile
from viper.data.source import SourceFile
from viper.errors import DataError
from viper.evaluate.intervals import OverSeeds, mean, paired
from viper.models.media import media_from
from viper.models.vision.boxes import overlaps
from viper.sandbox import Ref
from viper.schema import Box, PixelBox
from viper.tools.toolbox import Toolbox
from viper_lab.datasets.held_back import is_held_back
from viper_lab.papers.result import Claim, Gain, TableCell
from viper_lab.photographs.job import Measured, PhotographJob

PART = "cells"

FOLDER, CATEGORY = "bccd", "rbc"

# Cells to mark, as many as a person would.
MARKS = 3

# Pixels: a box nearer to the border is taken for one that the border cuts.
BORDER = 2

# Greatest IoU of a marked cell with another cell.
APART = 0.05

# Mean number of labelled cells of the 98 development smears.
DEVELOPMENT_MEAN = 12.03

# A lower ``like.threshold``, and the line from its count to the labelled one (least squares): of
# .05, .10, … the threshold whose line has the smallest error on development smears, 3.26 (3.45).
LIKELY, OFFSET, SLOPE = 0.15, 5.9, 0.26


def marked(boxes: Sequence[PixelBox], size: tuple[int, int]) -> list[PixelBox]:
    """Return the cells to mark: clear ones, uncut and alone, nearest in size to the median.

    Where fewer than three are clear, those that overlap come next, then those at the border.

    Args:
        boxes: (x0, y0, x1, y1) of all labelled cells.
        size: (width, height) of the picture.
    """
    if not boxes:
        return []
    corners = np.array(boxes, np.float32)
    sizes = np.log((corners[:, 2:] - corners[:, :2]).prod(1))
    cut = (corners[:, :2] < BORDER).any(1) | (corners[:, 2:] > np.array(size) - BORDER).any(1)
    crowded = (overlaps(corners, corners) > APART).sum(1) > 1
    order = np.lexsort((np.abs(sizes - np.median(sizes)), crowded, cut))
    return [boxes[index] for index in order[:MARKS]]


def measure(job: PhotographJob) -> Measured:
    """Count the red cells of the smears that are held back, of all with a calibration.

    Raises:
        UsageError: the folder is missing.
        DataError: its annotations cannot be read, or have no red cells.
    """
    folder = job.folder(FOLDER)
    file = CocoFile.read(SourceFile(folder, "instances.json"))
    red = {number for number, names in file.categories.items() if names[0].lower() == CATEGORY}
    if not red:
        raise DataError(f"{folder / 'instances.json'}: no category {CATEGORY}; expected red cells")
    answers = job.out / PART / "counts.jsonl"
    answers.parent.mkdir(parents=True, exist_ok=True)
    lines = answers.read_text("utf-8").splitlines() if answers.is_file() else []
    known = {record["picture"]: record for record in map(json.loads, lines)}
    truth, found, likely = [], [], []
    with closing(job.profile().components()) as components:
        pictures = [number for number in file.pictures if job.calibration or is_held_back(number)]
        for number in pictures:
            boxes = [thing.box for thing in file.things[number] if thing.category in red]
            if not boxes:
                continue  # there is nothing to mark
            if number not in known:
                picture = file.pictures[number]
                marks = marked(boxes, (picture.width, picture.height))
                path = folder / "images" / picture.file
                counts = _counts(components.toolbox, str(path), marks)
                known[number] = {"picture": number, **counts}
                with answers.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(known[number]) + "\n")
            truth.append(len(boxes))
            found.append(known[number]["found"])
            likely.append(OFFSET + SLOPE * known[number]["likely"])
    return _measured(truth, {"find_like": found, "find_like, corrected": likely}, len(pictures))


def _counts(toolbox: Toolbox, path: str, marks: Sequence[PixelBox]) -> dict[str, int]:
    media = media_from(path)
    boxes = [Box.from_pixels(box, media.images[0].shape[0]) for box in marks]
    refs = [Ref("patch", ("image0", b.left, b.lower, b.right, b.upper)) for b in boxes]
    counts = {}
    for name, thresholds in (("found", {}), ("likely", {"like.threshold": LIKELY})):
        session = toolbox.session(media, thresholds=thresholds)
        counts[name] = len(session.call("find_like", (refs,), {}, None))
    return counts


def _measured(truth: Sequence[int], counts: dict[str, Sequence[float]], pictures: int) -> Measured:
    table, family = "red cells", "mean error of the count"
    right = np.array(truth, float)
    constant = np.abs(right - DEVELOPMENT_MEAN)
    rows, gains, claims = [], [], []
    for name, values in {"development mean": [DEVELOPMENT_MEAN] * len(truth), **counts}.items():
        errors = np.abs(right - np.array(values, float))
        error = mean(errors.tolist())
        note = f"[{error.low:.2f}, {error.high:.2f}]; {pictures - len(truth)} without red cells"
        figure = OverSeeds(error.value, None, 1)
        rows.append(TableCell(table, name, family, figure, len(truth), note, unit="cells"))
        if name in counts:
            gain = paired(errors.tolist(), constant.tolist()).difference
            gains.append(Gain(table, name, family, gain))
            reason = f"{gain.value:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}] cells, n = {gain.n}"
            claims.append(
                Claim(
                    f"{name} from three marked cells errs less than the development mean",
                    gain.low > 0,
                    reason,
                    gain.value,
                    (gain.low, gain.high),
                )
            )
    return Measured(rows, gains, claims)
