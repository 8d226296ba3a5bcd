"""Shared functions of video models that read a clip in pieces: frames, windows, options.

Frames count from 0. A range ``[start, end)`` excludes its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from viper.errors import ProfileError
from viper.models.vision.roles import EventWindow

# Windows below this score are no candidates (the contract of the video role).
MIN_SCORE = 0.01

# Least share of the best score for a neighbour to belong to the same event.
NEIGHBOUR_SHARE = 0.5

NOTHING = "nothing happens."


def spread(start: int, end: int, count: int) -> list[int]:
    """Return ``count`` frames of ``[start, end)``, in the middle of as many equal parts.

    Frames repeat if there are fewer than ``count``. ``end`` must exceed ``start``.
    """
    length = end - start
    return [start + (2 * part + 1) * length // (2 * count) for part in range(count)]


def evenly(start: int, end: int, count: int) -> list[int]:
    """Return up to ``count`` different frames of ``[start, end)``, evenly chosen; [] without
    frames.
    """
    length = max(0, end - start)
    return spread(start, end, min(count, length)) if length else []


def clamp(start: int, end: int, frames: int) -> tuple[int, int]:
    """Return the range cut to ``[0, frames)``; start equals end if nothing is left."""
    start = max(0, min(start, frames))
    return start, max(start, min(end, frames))


def parts(frames: int, count: int) -> list[tuple[int, int]]:
    """Split ``[0, frames)`` into up to ``count`` parts of about equal length without gap or
    overlap.
    """
    count = min(count, frames)
    return [(i * frames // count, (i + 1) * frames // count) for i in range(count)]


def overlapping(frames: int, length: int) -> list[tuple[int, int]]:
    """Return windows of ``length`` frames, each half over the previous one; the last ends with the
    clip.

    A shorter clip is one window; a clip without frames has none.
    """
    if frames <= length:
        return [(0, frames)] if frames else []
    step = max(1, length // 2)
    starts = [*range(0, frames - length, step), frames - length]
    return [(start, start + length) for start in starts]


def rows_in(windows: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """Return the windows with their middle in ``[start, end)``, else the nearest one."""
    middles = [(first + last) / 2 for first, last in windows]
    inside = [row for row, middle in enumerate(middles) if start <= middle < end]
    if inside:
        return inside
    centre = (start + end) / 2
    return [min(range(len(middles)), key=lambda row: abs(middles[row] - centre))]


def smooth(scores: Sequence[float], radius: int) -> list[float]:
    """Return each score as the mean of those up to ``radius`` places away; fewer at the ends."""
    near = [scores[max(0, i - radius) : i + radius + 1] for i in range(len(scores))]
    return [sum(values) / len(values) for values in near]


def merge_windows(windows: Sequence[EventWindow]) -> list[EventWindow]:
    """Merge neighbouring windows of one event; return them best first, down to score .01.

    Starting from the best window, windows before and after it join while they touch it and score at
    least half as much. The result has the best one's score. The rest follows in the same way. A
    window mostly inside better ones is left out.

    Args:
        windows: in the order of their starts.
    """
    used = [False] * len(windows)
    events: list[EventWindow] = []
    for best in sorted(range(len(windows)), key=lambda i: -windows[i].score):
        score = windows[best].score
        if used[best] or score < MIN_SCORE:
            continue
        first = last = best
        while first > 0 and not used[first - 1] and _joins(windows, first - 1, first, score):
            first -= 1
        while last + 1 < len(windows) and not used[last + 1]:
            if not _joins(windows, last, last + 1, score):
                break
            last += 1
        used[first : last + 1] = [True] * (last + 1 - first)
        whole = EventWindow(windows[first].start, windows[last].end, score)
        if not _mostly_inside(whole, events):
            events.append(whole)
    return events


def _joins(windows: Sequence[EventWindow], left: int, right: int, best: float) -> bool:
    enough = min(windows[left].score, windows[right].score) >= NEIGHBOUR_SHARE * best
    return enough and windows[left].end >= windows[right].start


def _mostly_inside(window: EventWindow, others: Iterable[EventWindow]) -> bool:
    inside = {
        frame
        for other in others
        for frame in range(max(window.start, other.start), min(window.end, other.end))
    }
    return 2 * len(inside) > window.end - window.start


def as_sentences(texts: Iterable[str]) -> str:
    """Return the different texts in order, each with a period; ``nothing happens.`` without
    texts.
    """
    different = dict.fromkeys(text.strip().rstrip(".") for text in texts)
    return " ".join(f"{text}." for text in different if text) or NOTHING


def check_at_least(minimum: int, **options: int) -> None:
    """Raise ProfileError if one of the named options is below the minimum."""
    for name, value in options.items():
        if value < minimum:
            raise ProfileError(f"the option {name} is {value}; expected {minimum} or more")


def checked_texts(name: str, value: Sequence[str], *, at_least: int = 0) -> list[str]:
    """Return the texts of an option as a list.

    Raises:
        ProfileError: a single text, something other than texts, or too few.
    """
    texts = [] if isinstance(value, str) else list(value)
    if isinstance(value, str) or not all(isinstance(text, str) for text in texts):
        raise ProfileError(f"the option {name} is {value!r}; expected a list of texts")
    if len(texts) < at_least:
        raise ProfileError(f"the option {name} has {len(texts)} texts; expected {at_least} or more")
    return texts
