"""Labels of instructions to edit a picture: operation, objects and new content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from viper.schema import PixelBox

Operation = Literal["replace", "color_pop", "blur_background", "put_emoji"]

# How far an edit may reach beyond a box: a share of its longer side and some pixels more. Boxes and
# outlines that tools find are not exact to the pixel.
REACH_SHARE, REACH_PX = 0.15, 2.0


@dataclass(frozen=True)
class EditTarget:
    """Label of an instruction to edit a picture.

    Attributes:
        operation: name of the tool that makes the edit.
        old: the objects in words, as ``red cube``.
        new: the new content in words, as ``blue metal ball``; the emoji's name for ``put_emoji``;
            empty for other operations.
        boxes: boxes of the objects before the edit, ``(x0, y0, x1, y1)`` from the top-left corner.
        outlines: outlines of the same objects, ``{"size": [H, W], "counts": […]}`` as
            :func:`viper.data.coco_masks.mask_of` takes them.
    """

    operation: Operation
    old: str
    new: str
    boxes: tuple[PixelBox, ...]
    outlines: tuple[Mapping[str, Any], ...] = field(repr=False)

    @property
    def reach(self) -> NDArray[np.bool_]:
        """Return bool [H, W]: the pixels an edit may touch, or may leave alone if it keeps objects.

        An emoji is square, as wide as the longer side of the box.
        """
        height, width = self.outlines[0]["size"]
        return reach(self.boxes, (height, width), square=self.operation == "put_emoji")


def reach(
    boxes: Iterable[Sequence[float]], shape: tuple[int, int], *, square: bool = False
) -> NDArray[np.bool_]:
    """Return bool [H, W] of ``shape``: the boxes, slightly grown, or squares around them."""
    mask = np.zeros(shape, np.bool_)
    for x0, y0, x1, y1 in boxes:
        longer = max(x1 - x0, y1 - y0)
        by = REACH_SHARE * longer + REACH_PX
        across, down = (longer, longer) if square else (x1 - x0, y1 - y0)
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        left, top = (max(0, round(edge)) for edge in (x - across / 2 - by, y - down / 2 - by))
        mask[top : round(y + down / 2 + by), left : round(x + across / 2 + by)] = True
    return mask
