"""What runs make of a query's pictures: changed pictures and outlines, kept in the parent.

Programs know both by name alone. A name says what it stands for (a hash of the content), so that
the same edit has the same name in every run of the query, and whatever is cached by content holds
for it as well.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from viper.errors import ToolError
from viper.models.vision.roles import Mask, Pixels

EDIT_ID = re.compile(r"edit-[0-9a-f]{24}")
"""What the ids of edited pictures look like."""

MAX_BYTES = 1 << 30
"""All edited pictures and outlines of one query together."""


class Origin(NamedTuple):
    """Where an edited picture comes from: the given picture, and its top-left corner in that."""

    image_id: str
    x: int = 0
    y: int = 0


class Tag(NamedTuple):
    """A label and its box ``(x0, y0, x1, y1)``, in pixels of the given picture."""

    label: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class Edit:
    """An edited picture: ``pixels`` uint8 [H, W, 3], read-only; ``tags`` if it shows any."""

    pixels: Pixels
    origin: Origin
    tags: tuple[Tag, ...] | None = None


@dataclass(frozen=True, eq=False)
class Outline:
    """A mask: ``part`` bool [h, w] from pixel ``(x, y)``, of a picture of ``size`` (W, H)."""

    part: Mask
    x: int
    y: int
    size: tuple[int, int]

    @property
    def box(self) -> tuple[int, int, int, int]:
        """``(x0, y0, x1, y1)``, the end exclusive."""
        height, width = self.part.shape
        return (self.x, self.y, self.x + width, self.y + height)

    def mask(self) -> Mask:
        """bool [H, W] of the whole picture."""
        width, height = self.size
        whole = np.zeros((height, width), np.bool_)
        x0, y0, x1, y1 = self.box
        whole[y0:y1, x0:x1] = self.part
        return whole


def outline_of(
    mask: Mask, offset: tuple[int, int] = (0, 0), size: tuple[int, int] | None = None
) -> Outline | None:
    """The outline of a mask, bool [H, W]; None for one that holds nowhere.

    Args:
        offset: where in the picture the mask's top-left corner is.
        size: (width, height) of the picture; None takes the mask's.
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    y, x = int(rows[0]), int(columns[0])
    part = np.array(mask[y : int(rows[-1]) + 1, x : int(columns[-1]) + 1], np.bool_)
    return Outline(part, x + offset[0], y + offset[1], size or (mask.shape[1], mask.shape[0]))


class Edits:
    """The edited pictures and outlines of one query, by name; for any number of threads.

    Raises:
        ToolError: from what adds, once they take more than ``MAX_BYTES``.
    """

    def __init__(self) -> None:
        self._pictures: dict[str, Edit] = {}
        self._outlines: dict[str, Outline] = {}

    def copy(self) -> Edits:
        """The same pictures and outlines, to which others can be added apart from these."""
        other = Edits()
        other._pictures, other._outlines = dict(self._pictures), dict(self._outlines)
        return other

    def add(self, pixels: Pixels, origin: Origin, tags: Sequence[Tag] | None = None) -> str:
        """Keeps a picture, ``uint8 [H, W, 3]``; answers its name."""
        kept = np.ascontiguousarray(pixels).copy()
        kept.flags.writeable = False
        said = (kept.shape, origin, None if tags is None else tuple(tags))
        name = f"edit-{_digest(said, kept)}"
        edit = Edit(kept, origin, None if tags is None else tuple(tags))
        if name not in self._pictures:
            self._check_room(kept.nbytes)
        self._pictures.setdefault(name, edit)
        return name

    def add_outline(self, outline: Outline) -> str:
        """Keeps an outline; answers its name."""
        said = (outline.part.shape, outline.x, outline.y, outline.size)
        name = f"outline-{_digest(said, outline.part)}"
        if name not in self._outlines:
            self._check_room(outline.part.nbytes)
        self._outlines.setdefault(name, outline)
        return name

    def __contains__(self, name: str) -> bool:
        return name in self._pictures

    def names(self) -> tuple[str, ...]:
        """Of the edited pictures, in the order in which they were made."""
        return tuple(self._pictures)

    def picture(self, name: str) -> Edit:
        """An edited picture.

        Raises:
            KeyError: none of that name was made for this query.
        """
        return self._pictures[name]

    def outline(self, name: str) -> Outline:
        """An outline.

        Raises:
            KeyError: as above.
        """
        return self._outlines[name]

    def _check_room(self, size: int) -> None:
        taken = sum(edit.pixels.nbytes for edit in list(self._pictures.values()))
        taken += sum(outline.part.nbytes for outline in list(self._outlines.values()))
        if taken + size > MAX_BYTES:
            raise ToolError(
                f"the edited pictures of this query take more than {MAX_BYTES >> 20} MB; "
                "make fewer of them, or scale the picture down"
            )


def _digest(said: Any, array: np.ndarray[Any, Any]) -> str:
    digest = hashlib.blake2b(repr(said).encode("utf-8", "replace"), digest_size=12)
    digest.update(array.data)
    return digest.hexdigest()
