"""What may be an object in a picture, cut out to be looked at once more.

In the picture as a whole an object is a few patches, which tell little of what is new in it. Shown
to the same image tower alone, as large as a picture, it is many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.models.vision.boxes import NMS_IOU, overlaps
from viper.models.vision.roles import Floats, Pixels

LEAST_OBJECTNESS = -3.0
"""Logit below which a box is taken for no object."""

MOST_PROPOSALS = 20
"""Boxes of a picture that are looked at again, those likeliest to be objects."""

CONTEXT = 1.25
"""Side of a cut-out square, as a multiple of the box's longer side."""

MIDDLE_PLACES, LAST_PLACES = 6, 4
"""Rows, and columns, of places that the patches of the middle and of the last layer become."""

EDGE = 2
"""Rows, and columns, of patches at a cut-out's edge that show what is around the object."""

KEPT_SIDES = 2
"""Of a picture no more is kept for a second look than this many times what the detector sees."""

BLOCKS = (MIDDLE_PLACES**2, LAST_PLACES**2, 1, 1)
"""Places of each part of what is said of a cut-out: the middle and the last layer by places, and
how much the patches of each differ from each other."""

PLACES = sum(BLOCKS)
"""Of a cut-out in all."""


def likely_objects(boxes: Floats, objectness: Floats) -> tuple[list[int], NDArray[np.bool_]]:
    """Which patches' boxes are looked at again, and who proposes about the same ones.

    Args:
        boxes: float32 [P, 4] in pixels.
        objectness: float32 [P], logits.

    Returns:
        N patches, the likeliest first, and bool [N, P].
    """
    order = np.argsort(-objectness, kind="stable")
    sides = (boxes[:, 2:] - boxes[:, :2]).min(axis=1)
    order = order[(sides[order] > 0) & (objectness[order] >= LEAST_OBJECTNESS)]
    kept: list[int] = []
    near: list[NDArray[np.bool_]] = []
    while len(order) and len(kept) < MOST_PROPOSALS:
        best = int(order[0])
        same = overlaps(boxes[best : best + 1], boxes)[0] > NMS_IOU
        same[best] = True
        kept.append(best)
        near.append(same)
        order = order[~same[order]]
    return kept, np.array(near, np.bool_).reshape(len(kept), len(boxes))


def shrunk(pixels: Pixels, most: int) -> Pixels:
    """A copy of a picture with the longer side that long at most: what is kept of large ones."""
    from PIL import Image

    height, width = pixels.shape[:2]
    scale = most / max(height, width)
    if scale >= 1:
        return pixels.copy()
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(picture.resize(size, Image.Resampling.BILINEAR))


def cut_out(pixels: Pixels, box: Floats, side: int) -> Pixels:
    """uint8 [side, side, 3]: a box with a little around it; black beyond the picture's edges."""
    from PIL import Image

    centre, half = (box[:2] + box[2:]) / 2, CONTEXT / 2 * float((box[2:] - box[:2]).max())
    corners = (*(centre - half).tolist(), *(centre + half).tolist())
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    cut = picture.transform(
        (side, side), Image.Transform.EXTENT, corners, Image.Resampling.BILINEAR
    )
    return np.asarray(cut)


def described(middle: Any, last: Any) -> Floats:
    """float32 [N, D']: two layers' patches, by places of the cut-out, and how much they differ.

    What repeats all over an object (stripes, spots) is another thing at each place of it, and the
    same deviation of its patches wherever it begins.

    Args:
        middle, last: float [N, P, D] of torch, the patches in rows from the top-left one.
    """
    parts = (_placed(middle, MIDDLE_PLACES), _placed(last, LAST_PLACES))
    return np.concatenate((*parts, _deviating(middle), _deviating(last)), axis=1)


def _placed(patches: Any, places: int) -> Floats:
    from torch.nn import functional

    count, number, width = patches.shape
    even = functional.layer_norm(patches.float(), (width,))
    grid = even.transpose(1, 2).reshape(count, width, round(number**0.5), -1)
    means = functional.adaptive_avg_pool2d(grid, places).flatten(2)  # (N, W, places * places)
    found: Floats = means.transpose(1, 2).flatten(1).cpu().numpy()
    return found


def _deviating(patches: Any) -> Floats:
    """float32 [N, D]: the deviation over those patches that are not at the cut-out's edge."""
    from torch.nn import functional

    count, number, width = patches.shape
    side = round(number**0.5)
    edge = min(EDGE, (side - 1) // 2)
    even = functional.layer_norm(patches.float(), (width,)).reshape(count, side, -1, width)
    inner = even[:, edge : side - edge, edge : side - edge].flatten(1, 2)
    found: Floats = inner.std(1, correction=0).cpu().numpy()
    return found
