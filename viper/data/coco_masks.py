"""Outlines of objects as COCO and LVIS write them: polygons, or runs of a mask.

Both are read by ``pycocotools``, whose borders all published scores were computed with. Its input
is checked first: it allocates memory by the length of an outline, and its reader of packed runs
reads beyond the end of a text that stops within a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.plugins import need_packages

# Corners of all polygons of one object: annotators set dozens, automatic outlines some thousands,
# and a damaged file must not fill the memory.
MAX_POINTS = 100_000

# Pixels along the outlines of one object: far above any outline in a photograph, and pycocotools
# walks them in memory at five times the resolution.
MAX_OUTLINE = 4_000_000

# Five bits a character, from ``0`` on; the sixth says that more of the number follow.
_PACKED = re.compile(r"[0-o]*[0-O]")


class OutlineError(Exception):
    """An outline that cannot be read; the message says what was seen."""


def mask_of(outline: Any, height: int, width: int) -> NDArray[np.bool_]:
    """Return the mask of an outline, bool [H, W].

    Args:
        outline: polygons or runs. Polygons are a list of ``[x0, y0, x1, y1, …]`` in pixels from the
            top-left corner; the mask is their union, and points outside the picture are moved to
            its edge. Runs are ``{"size": [H, W], "counts": …}`` with the lengths of alternating
            runs down the columns, starting with zeros, as a list or encoded in a text.

    Raises:
        OutlineError: the outline has another form, or another size than the picture.
    """
    if isinstance(outline, Mapping):
        return _of_runs(outline, height, width)
    if not isinstance(outline, Sequence) or isinstance(outline, str) or not outline:
        raise OutlineError(f"the outline is a {type(outline).__name__}; expected polygons or runs")
    polygons: list[NDArray[np.float64]] = []  # corners (x, y) within the picture, [N, 2], N >= 3
    for polygon in outline:
        try:
            values = np.array(polygon, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise OutlineError("a polygon holds something else than numbers") from None
        # fewer than three corners (six numbers) enclose nothing
        if values.ndim != 1 or len(values) < 6 or len(values) % 2 or not np.isfinite(values).all():
            raise OutlineError("a polygon is no list x0, y0, x1, y1, … of three corners or more")
        polygons.append(np.clip(values.reshape(-1, 2), 0, [width, height]))
    if sum(map(len, polygons)) > MAX_POINTS:
        raise OutlineError(f"the outline has more than {MAX_POINTS:,} corners")
    if sum(float(np.abs(np.diff(each, axis=0)).sum()) for each in polygons) > MAX_OUTLINE:
        raise OutlineError(f"the outline is longer than {MAX_OUTLINE:,} pixels")
    coco = _library()
    runs = coco.frPyObjects([each.reshape(-1).tolist() for each in polygons], height, width)
    return np.asarray(coco.decode(coco.merge(runs)), np.bool_)


def _of_runs(outline: Mapping[Any, Any], height: int, width: int) -> NDArray[np.bool_]:
    if outline.get("size") not in ([height, width], (height, width)):
        raise OutlineError(f"the runs are not of a picture of {height} rows and {width} columns")
    counts = outline.get("counts")
    if isinstance(counts, str):
        if not _PACKED.fullmatch(counts):
            raise OutlineError("the packed runs hold a wrong character or stop within a number")
        coco = _library()
        try:
            mask = coco.decode({"size": [height, width], "counts": counts})
        except ValueError as error:
            raise OutlineError(f"the packed runs do not fit the picture ({error})") from None
        # Runs that end too early leave the rest of the mask uninitialised.
        if coco.encode(mask)["counts"] != counts.encode():
            raise OutlineError(f"the packed runs do not add up to {height} x {width} pixels")
        return np.asarray(mask, np.bool_)
    if not isinstance(counts, list) or not all(type(each) is int for each in counts):
        raise OutlineError("the lengths of the runs are neither whole numbers nor a text")
    if any(each < 0 for each in counts) or sum(counts) != height * width:
        raise OutlineError(f"the runs do not add up to {height} x {width} pixels")
    starts_set = np.arange(len(counts)) % 2 == 1
    return np.repeat(starts_set, counts).reshape(width, height).T.copy()


def _library() -> Any:
    need_packages(("pycocotools",), "an outline of polygons or packed runs")
    from pycocotools import mask

    return mask
