"""Base of the API classes in the child: handles without pixels, and argument checks.

A handle names a picture or a video in the parent, with its size and the client through which
programs ask questions about it. Nothing here has pixels.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


class Caller(Protocol):
    """The client: sends one tool call to the parent and blocks until the reply arrives."""

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any: ...


@dataclass(frozen=True)
class ImageHandle:
    """A picture by name; sizes in pixels, 0 if unknown."""

    id: str
    width: int
    height: int
    call: Caller = field(repr=False, compare=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return ``(3, height, width)``, the layout of ``cropped_image``."""
        return (3, self.height, self.width)


# Errors and prints of programs name the types of their values: these two are `image` and `video`.
ImageHandle.__name__ = ImageHandle.__qualname__ = "image"


@dataclass(frozen=True)
class ArrayView:
    """A part ``(x0, y0, x1, y1)``, from the top-left corner, of a picture that a process maps."""

    id: str
    box: tuple[int, int, int, int]


@dataclass(frozen=True)
class VideoHandle:
    """A video by name; frames counted from 0, sizes in pixels."""

    id: str
    num_frames: int
    width: int
    height: int
    call: Caller = field(repr=False, compare=False)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return ``(num_frames, 3, height, width)``."""
        return (self.num_frames, 3, self.height, self.width)

    def frame_handle(self, index: float) -> ImageHandle:
        """Return frame ``index`` as a picture; negative numbers count from the end.

        Raises:
            IndexError: the video has no such frame.
        """
        absolute = frame_number(index, self.num_frames)
        return ImageHandle(f"{self.id}#{absolute}", self.width, self.height, self.call)


VideoHandle.__name__ = VideoHandle.__qualname__ = "video"


@runtime_checkable
class FrameSource(Protocol):
    """A source of patches by frame index: a video or a segment of one."""

    def frame_handle(self, index: float) -> ImageHandle: ...


def frame_number(index: Any, num_frames: int) -> int:
    """Return ``index`` as a frame number from 0, with negative numbers resolved.

    Raises:
        IndexError: there is no such frame; the message gives the range.
    """
    position = int(number(index, "frame index"))
    resolved = position + num_frames if position < 0 else position
    if not 0 <= resolved < num_frames:
        raise IndexError(f"frame {position} is outside the {num_frames} frames there are")
    return resolved


def number(value: Any, name: str) -> int | float:
    """Return ``value`` as a plain finite int or float (numpy scalars become plain).

    Raises:
        TypeError: it is not a number.
        ValueError: it is not finite.
    """
    try:
        return operator.index(value)
    except TypeError:
        pass
    if isinstance(value, str | bytes) or not hasattr(type(value), "__float__"):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    plain = float(value)
    if not math.isfinite(plain):
        raise ValueError(f"{name} must be finite, not {plain}")
    return plain


def text(value: Any, name: str) -> str:
    """Return ``value`` if it is a string.

    Raises:
        TypeError: it is not a string.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    return value


def texts(values: Any, name: str) -> list[str]:
    """Return ``values`` as a list of strings; a single string counts as a list of one.

    Raises:
        TypeError: it is neither, or an entry is not a string or a plain number.
        ValueError: it is empty.
    """
    if isinstance(values, str):
        return [values]
    try:
        items = list(values)
    except TypeError:
        raise TypeError(f"{name} must be a list of strings, not {type(values).__name__}") from None
    if not items:
        raise ValueError(f"{name} is empty; give at least one")
    return [
        str(item) if isinstance(item, int | float) else text(item, f"an entry of {name}")
        for item in items
    ]
