"""Outlines of objects as COCO and LVIS write them: polygons, or runs of a mask.

Polygons are filled by ``pycocotools``, whose borders all published scores were computed with; what
it is given is bounded first, since it asks for memory by the length of an outline. Runs are read
here: its reader of packed runs goes on beyond the end of a text that stops within a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.errors import MissingExtraError

MAX_POINTS = 100_000
"""Corners of all polygons of one object."""

MAX_OUTLINE = 4_000_000
"""Pixels along the outlines of one object."""

_LONGEST_RUN = 32
"""Bits of one packed number."""


class OutlineError(Exception):
    """An outline that cannot be read; the message says what was seen."""


def mask_of(outline: Any, height: int, width: int) -> NDArray[np.bool_]:
    """The mask of an outline, bool [H, W].

    Args:
        outline: a list of polygons ``[x0, y0, x1, y1, …]`` in pixels from the top-left corner, of
            which the union counts; or ``{"size": [H, W], "counts": …}``, its runs down the columns,
            beginning with zeros, as a list of lengths or packed in a text. What polygons have
            outside the picture is moved to its edge.

    Raises:
        OutlineError: neither, or not of this picture's size.
        MissingExtraError: ``pycocotools`` is not installed (polygons only).
    """
    if isinstance(outline, Mapping):
        return _of_runs(outline, height, width)
    if isinstance(outline, Sequence) and not isinstance(outline, str) and outline:
        return _of_polygons(outline, height, width)
    raise OutlineError(f"the outline is a {type(outline).__name__}; expected polygons or runs")


def runs_of(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """A mask, bool [H, W], as plain runs that :func:`mask_of` reads."""
    flat = mask.T.reshape(-1)
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = [0, *changes.tolist(), len(flat)]
    counts = [end - start for start, end in zip(edges, edges[1:], strict=False)]
    return {"size": list(mask.shape), "counts": [0, *counts] if flat[0] else counts}


def _of_polygons(polygons: Sequence[Any], height: int, width: int) -> NDArray[np.bool_]:
    corners = [_corners(polygon, height, width) for polygon in polygons]
    if sum(map(len, corners)) > MAX_POINTS:
        raise OutlineError(f"the outline has more than {MAX_POINTS:,} corners")
    if sum(float(np.abs(np.diff(each, axis=0)).sum()) for each in corners) > MAX_OUTLINE:
        raise OutlineError(f"the outline is longer than {MAX_OUTLINE:,} pixels")
    try:
        from pycocotools import mask as coco
    except ModuleNotFoundError:
        raise MissingExtraError("pycocotools", "lvis", "a mask given as polygons") from None
    runs = coco.frPyObjects([each.reshape(-1).tolist() for each in corners], height, width)
    return np.asarray(coco.decode(coco.merge(runs)), np.bool_)


def _corners(polygon: Any, height: int, width: int) -> NDArray[np.float64]:
    """float64 [N, 2], (x, y) within the picture, N >= 3."""
    try:
        values = np.array(polygon, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise OutlineError("a polygon holds something else than numbers") from None
    if values.ndim != 1 or len(values) < 6 or len(values) % 2 or not np.isfinite(values).all():
        raise OutlineError("a polygon is no list x0, y0, x1, y1, … of three corners or more")
    return np.clip(values.reshape(-1, 2), 0, [width, height])


def _of_runs(outline: Mapping[Any, Any], height: int, width: int) -> NDArray[np.bool_]:
    if outline.get("size") not in ([height, width], (height, width)):
        raise OutlineError(f"the runs are not of a picture of {height} rows and {width} columns")
    counts = outline.get("counts")
    lengths = _unpacked(counts, height * width) if isinstance(counts, str) else counts
    if not isinstance(lengths, list) or not all(type(each) is int for each in lengths):
        raise OutlineError("the lengths of the runs are neither whole numbers nor a text")
    if any(each < 0 for each in lengths) or sum(lengths) != height * width:
        raise OutlineError(f"the runs do not add up to {height} x {width} pixels")
    starts_set = np.arange(len(lengths)) % 2 == 1
    return np.repeat(starts_set, lengths).reshape(width, height).T.copy()


def _unpacked(text: str, pixels: int) -> list[int]:
    """The lengths in a text: five bits a character, the sixth says that more follow.

    Lowest bits first, from character 48 on, the fifth of the last one is the sign; from the fourth
    number on each is the difference to the one before the last.
    """
    lengths: list[int] = []
    value = shift = 0
    for character in text:
        code = ord(character) - 48
        if not 0 <= code < 64 or shift > _LONGEST_RUN or len(lengths) > pixels:
            raise OutlineError("the packed runs hold a character or a number that none may hold")
        value |= (code & 31) << shift
        shift += 5
        if code & 32:
            continue
        if code & 16:
            value -= 1 << shift
        lengths.append(value + lengths[-2] if len(lengths) > 2 else value)
        value = shift = 0
    if shift:
        raise OutlineError("the packed runs stop in the midst of a number")
    return lengths
