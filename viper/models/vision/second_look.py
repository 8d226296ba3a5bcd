"""Cut-outs of likely objects, for a second pass of the image tower.

In the whole picture an object covers a few patches, which say little about new features.
Enlarged to the size of a picture, it covers many patches of the same image tower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.models.vision.boxes import NMS_IOU, overlaps
from viper.models.vision.roles import Floats, Pixels

# Logit below which a box is not an object.
LEAST_OBJECTNESS = -3.0

# Maximum number of boxes per picture in the second pass, the likeliest objects first.
MOST_PROPOSALS = 20

# Side of a cut-out square, as a multiple of the box's longer side.
CONTEXT = 1.25

# Rows and columns of places that patches of the middle and the last layer are pooled to.
MIDDLE_PLACES, LAST_PLACES = 6, 4

# Rows and columns of patches at a cut-out's edge, which show the surroundings of the object.
EDGE = 2

# Size limit of a picture kept for the second pass, as a multiple of the detector's input size.
KEPT_SIDES = 2

# Places of each part of a cut-out's features: the middle and the last layer by places, and the
# deviation of the patches of each.
BLOCKS = (MIDDLE_PLACES**2, LAST_PLACES**2, 1, 1)

# Total number of places of a cut-out.
PLACES = sum(BLOCKS)


def likely_objects(boxes: Floats, objectness: Floats) -> tuple[list[int], NDArray[np.bool_]]:
    """Return the patches whose boxes get a second pass, and the patches that propose the same
    boxes.

    Args:
        boxes: float32 [P, 4] in pixels.
        objectness: float32 [P], logits.

    Returns:
        N patches, the likeliest first, and bool [N, P].
    """
    order = np.argsort(-objectness, kind="stable")
    sides = (boxes[:, 2:] - boxes[:, :2]).min(axis=1)
    order = order[(sides[order] > 0) & (objectness[order] >= LEAST_OBJECTNESS)]
    patches: list[int] = []
    members: list[NDArray[np.bool_]] = []
    while len(order) and len(patches) < MOST_PROPOSALS:
        best = int(order[0])
        same = overlaps(boxes[best : best + 1], boxes)[0] > NMS_IOU
        same[best] = True
        patches.append(best)
        members.append(same)
        order = order[~same[order]]
    return patches, np.array(members, np.bool_).reshape(len(patches), len(boxes))


def shrink(pixels: Pixels, most: int) -> Pixels:
    """Return a copy of a picture, scaled down if its longer side exceeds ``most``."""
    from PIL import Image

    height, width = pixels.shape[:2]
    scale = most / max(height, width)
    if scale >= 1:
        return pixels.copy()
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(picture.resize(size, Image.Resampling.BILINEAR))


def cut_out(pixels: Pixels, box: Floats, side: int) -> Pixels:
    """Return a box with some context, uint8 [side, side, 3]; black beyond the picture's edges."""
    from PIL import Image

    centre, half = (box[:2] + box[2:]) / 2, CONTEXT / 2 * float((box[2:] - box[:2]).max())
    corners = (*(centre - half).tolist(), *(centre + half).tolist())
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    cut = picture.transform(
        (side, side), Image.Transform.EXTENT, corners, Image.Resampling.BILINEAR
    )
    return np.asarray(cut)


def described(middle: Any, last: Any) -> Floats:
    """Return the features of cut-outs, float32 [N, D']: two layers by places, and their deviations.

    A repeated pattern (stripes, spots) differs from place to place on an object, but its patches
    have the same deviation wherever the pattern begins.

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
    return means.transpose(1, 2).flatten(1).cpu().numpy()


def _deviating(patches: Any) -> Floats:
    """Return the deviation over the patches inside the cut-out's edge, float32 [N, D]."""
    from torch.nn import functional

    count, number, width = patches.shape
    side = round(number**0.5)
    edge = min(EDGE, (side - 1) // 2)
    even = functional.layer_norm(patches.float(), (width,)).reshape(count, side, -1, width)
    inner = even[:, edge : side - edge, edge : side - edge].flatten(1, 2)
    return inner.std(1, correction=0).cpu().numpy()
