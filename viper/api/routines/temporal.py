"""Frame ranges: ``(start, end)`` counted in the whole video, end exclusive, possibly empty.

The temporal routines of ``VideoSegment`` are these few lines plus the located event.
Source: Stanić et al. 2024, sec. 2.2.
"""

from __future__ import annotations

FrameRange = tuple[int, int]


def trimmed(within: FrameRange, start: int | None, end: int | None) -> FrameRange:
    """Frames ``start`` to ``end`` counted from the start of ``within``, cut off at its ends.

    An end before the start gives an empty range.
    """
    first, last = within
    begin = first if start is None else min(max(first + start, first), last)
    stop = last if end is None else min(max(first + end, first), last)
    return (begin, max(begin, stop))


def during(within: FrameRange, event: FrameRange) -> FrameRange:
    """The part of ``within`` that the event covers; empty when they do not meet."""
    begin = min(max(event[0], within[0]), within[1])
    return (begin, max(begin, min(event[1], within[1])))


def before(within: FrameRange, event: FrameRange) -> FrameRange:
    """From the start of ``within`` up to the event; empty when there was no event."""
    if event[0] >= event[1]:
        return (within[0], within[0])
    return (within[0], during(within, event)[0])


def after(within: FrameRange, event: FrameRange) -> FrameRange:
    """From the end of the event to the end of ``within``; empty when there was no event."""
    if event[0] >= event[1]:
        return (within[1], within[1])
    return (max(within[0], min(event[1], within[1])), within[1])
