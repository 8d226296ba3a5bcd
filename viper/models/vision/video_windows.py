"""What video models share that look at a clip piece by piece: frames, windows, options.

Frames count from 0; a range ``[start, end)`` leaves its end out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from viper.errors import ProfileError
from viper.models.vision.roles import EventWindow

MIN_SCORE = 0.01
"""Windows below it are no candidates (the contract of the video role)."""

NEIGHBOUR_SHARE = 0.5
"""A neighbour belongs to the same event from this share of the best score on."""

NOTHING = "nothing happens."


def spread(start: int, end: int, count: int) -> list[int]:
    """``count`` frames of ``[start, end)``, in the middle of as many equal parts.

    Frames repeat where there are fewer than asked for. ``end`` must exceed ``start``.
    """
    length = end - start
    return [start + (2 * part + 1) * length // (2 * count) for part in range(count)]


def evenly(start: int, end: int, count: int) -> list[int]:
    """At most ``count`` different frames of ``[start, end)``, evenly chosen; [] of no frames."""
    length = max(0, end - start)
    return spread(start, end, min(count, length)) if length else []


def clamped(start: int, end: int, frames: int) -> tuple[int, int]:
    """The range cut to ``[0, frames)``; start equals end where nothing is left."""
    start = max(0, min(start, frames))
    return start, max(start, min(end, frames))


def parts(frames: int, count: int) -> list[tuple[int, int]]:
    """``[0, frames)`` in at most ``count`` parts without gap or overlap, about equally long."""
    count = min(count, frames)
    return [(i * frames // count, (i + 1) * frames // count) for i in range(count)]


def overlapping(frames: int, length: int) -> list[tuple[int, int]]:
    """Windows of ``length`` frames, each half over the one before; the last ends with the clip.

    A shorter clip is one window; no frames give none.
    """
    if frames <= length:
        return [(0, frames)] if frames else []
    step = max(1, length // 2)
    starts = [*range(0, frames - length, step), frames - length]
    return [(start, start + length) for start in starts]


def smoothed(scores: Sequence[float], radius: int) -> list[float]:
    """Each score as the mean of those at most ``radius`` places away; fewer at the ends."""
    near = [scores[max(0, i - radius) : i + radius + 1] for i in range(len(scores))]
    return [sum(values) / len(values) for values in near]


def merged(windows: Sequence[EventWindow]) -> list[EventWindow]:
    """Scored windows, neighbours of one event put together, best first, down to score .01.

    From the best window on, those before and after it are taken in while they touch it and
    score at least half as much; the result has the best one's score. Then comes the best
    of what is left. What lies mostly inside better ones is left out.

    Args:
        windows: in the order of their starts.
    """
    taken = [False] * len(windows)
    found: list[EventWindow] = []
    for best in sorted(range(len(windows)), key=lambda i: -windows[i].score):
        score = windows[best].score
        if taken[best] or score < MIN_SCORE:
            continue
        first = last = best
        while first > 0 and not taken[first - 1] and _joins(windows, first - 1, first, score):
            first -= 1
        while last + 1 < len(windows) and not taken[last + 1]:
            if not _joins(windows, last, last + 1, score):
                break
            last += 1
        taken[first : last + 1] = [True] * (last + 1 - first)
        whole = EventWindow(windows[first].start, windows[last].end, score)
        if not _mostly_inside(whole, found):
            found.append(whole)
    return found


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
    """The different texts in their order, each ended by a period; ``nothing happens.`` of none."""
    different = dict.fromkeys(text.strip().rstrip(".") for text in texts)
    return " ".join(f"{text}." for text in different if text) or NOTHING


def check_at_least(minimum: int, **options: int) -> None:
    """Raises ProfileError where one of the named options is below the minimum."""
    for name, value in options.items():
        if value < minimum:
            raise ProfileError(f"the option {name} is {value}; expected {minimum} or more")


def checked_texts(name: str, value: Sequence[str], *, at_least: int = 0) -> list[str]:
    """The texts of an option as a list.

    Raises:
        ProfileError: a single text, something other than texts, or too few.
    """
    texts = [] if isinstance(value, str) else list(value)
    if isinstance(value, str) or not all(isinstance(text, str) for text in texts):
        raise ProfileError(f"the option {name} is {value!r}; expected a list of texts")
    if len(texts) < at_least:
        raise ProfileError(f"the option {name} has {len(texts)} texts; expected {at_least} or more")
    return texts
