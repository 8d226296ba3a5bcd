"""Edited pictures and outlines of a query's runs, stored in the parent process.

Programs use both by name only. A name is a hash of the content, so the same edit has the same name
in every run of the query, and caches by content work for it as well. A tool makes pixels or a mask
(:func:`outline_of`), :class:`Edits` names and bounds them, and ``Media.pixels`` finds them by name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from viper.errors import ToolError
from viper.models.vision.boxes import mask_box
from viper.models.vision.roles import Mask, Pixels

# Pattern of the ids of edited pictures: 12 bytes of a hash, so equal names mean equal content.
EDIT_ID = re.compile(r"edit-[0-9a-f]{24}")

# Limit on all edited pictures and outlines of one query together: a program in a loop must not fill
# the memory of a server, and some 25 photographs of 12 megapixels fit.
MAX_BYTES = 1 << 30


class Origin(NamedTuple):
    """Origin of an edited picture: the original picture, and the top-left corner in it."""

    image_id: str
    x: int = 0
    y: int = 0


class Tag(NamedTuple):
    """Label and its box ``(x0, y0, x1, y1)``, in pixels of the original picture."""

    label: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class Edit:
    """Edited picture: ``pixels`` uint8 [H, W, 3], read-only; ``tags`` if it shows any."""

    pixels: Pixels
    origin: Origin
    tags: tuple[Tag, ...] | None = None


@dataclass(frozen=True, eq=False)
class Outline:
    """Mask: ``part`` bool [h, w] from pixel ``(x, y)``, of a picture of ``size`` (W, H)."""

    part: Mask
    x: int
    y: int
    size: tuple[int, int]

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Return ``(x0, y0, x1, y1)``, the end exclusive."""
        height, width = self.part.shape
        return (self.x, self.y, self.x + width, self.y + height)

    def mask(self) -> Mask:
        """Return the mask bool [H, W] of the whole picture."""
        width, height = self.size
        whole = np.zeros((height, width), np.bool_)
        x0, y0, x1, y1 = self.box
        whole[y0:y1, x0:x1] = self.part
        return whole


def outline_of(
    mask: Mask, offset: tuple[int, int] = (0, 0), size: tuple[int, int] | None = None
) -> Outline | None:
    """Return the outline of a mask, bool [H, W], or None for an empty mask.

    Args:
        offset: position of the mask's top-left corner in the picture.
        size: (width, height) of the picture; None takes the mask's.
    """
    x0, y0, x1, y1 = mask_box(mask)
    if x0 == x1:
        return None
    part = np.array(mask[y0:y1, x0:x1], np.bool_)
    return Outline(part, x0 + offset[0], y0 + offset[1], size or (mask.shape[1], mask.shape[0]))


class Edits:
    """Edited pictures and outlines of one query by name; thread-safe.

    Raises:
        ToolError: from the methods that add, if the total exceeds ``MAX_BYTES``.
    """

    def __init__(self) -> None:
        self._pictures: dict[str, Edit] = {}
        self._outlines: dict[str, Outline] = {}

    def copy(self) -> Edits:
        """Return a copy with the same pictures and outlines; additions to it stay separate."""
        other = Edits()
        other._pictures, other._outlines = dict(self._pictures), dict(self._outlines)
        return other

    def add(
        self, pixels: Pixels, origin: Origin, tags: Sequence[Tag] | None = None, key: Any = None
    ) -> str:
        """Store a picture, ``uint8 [H, W, 3]``, and return its name.

        Args:
            key: all that the pixels depend on, if it is known; it names the picture, and pixels
                that nobody else writes are not copied.
        """
        stored = np.ascontiguousarray(pixels)
        if key is None:
            stored = stored.copy()
        stored.flags.writeable = False
        edit = Edit(stored, origin, None if tags is None else tuple(tags))
        header = (stored.shape, origin, edit.tags, key)
        name = f"edit-{_digest(header, stored if key is None else None)}"
        return self._keep(self._pictures, name, edit, stored.nbytes)

    def add_outline(self, outline: Outline) -> str:
        """Store an outline and return its name."""
        header = (outline.part.shape, outline.x, outline.y, outline.size)
        name = f"outline-{_digest(header, outline.part)}"
        return self._keep(self._outlines, name, outline, outline.part.nbytes)

    def __contains__(self, name: str) -> bool:
        return name in self._pictures

    def names(self) -> tuple[str, ...]:
        """Return the names of the edited pictures in the order of their creation."""
        return tuple(self._pictures)

    def picture(self, name: str) -> Edit:
        """Return an edited picture.

        Raises:
            KeyError: this query has no edited picture of that name.
        """
        return self._pictures[name]

    def outline(self, name: str) -> Outline:
        """Return an outline.

        Raises:
            KeyError: this query has no outline of that name.
        """
        return self._outlines[name]

    def _keep(self, kept: dict[str, Any], name: str, item: Edit | Outline, size: int) -> str:
        total = sum(edit.pixels.nbytes for edit in list(self._pictures.values()))
        total += sum(outline.part.nbytes for outline in list(self._outlines.values()))
        if name not in kept and total + size > MAX_BYTES:
            raise ToolError(
                f"the edited pictures of this query take more than {MAX_BYTES >> 20} MB; "
                "make fewer of them, or scale the picture down"
            )
        kept.setdefault(name, item)
        return name


def _digest(header: Any, array: np.ndarray[Any, Any] | None) -> str:
    digest = hashlib.blake2b(repr(header).encode("utf-8", "replace"), digest_size=12)
    if array is not None:
        digest.update(array.data)
    return digest.hexdigest()
