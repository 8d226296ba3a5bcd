"""Reading a clip in pieces: frames and windows, and the base of models that score windows.

A backend chooses frames or windows (:func:`evenly`, :func:`parts`, :func:`overlapping`), scores
each for the described event, and merges neighbours into candidates (:func:`merge_windows`).
Descriptions of pieces are joined in order of time (:func:`as_sentences`).

Frames count from 0. A range ``[start, end)`` excludes its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from viper.models.loading import Checkpoint
from viper.models.vision.roles import EventWindow

# Windows below this score are no candidates (the contract of the video role).
MIN_SCORE = 0.01

# Least share of the best score for a neighbour to belong to the same event: windows overlap by
# half, so one that holds only half of the event still joins.
NEIGHBOUR_SHARE = 0.5

NOTHING = "nothing happens."


@dataclass(frozen=True)
class WindowedClip:
    """Encoding of a clip of ``length`` frames with W windows ``[start, end)``."""

    length: int
    windows: tuple[tuple[int, int], ...]


class WindowVideo(Checkpoint):
    """Base of the ``VideoModel`` backends whose network reads windows of a fixed length."""

    def locate(self, encoding: Any, event: str) -> list[EventWindow]:
        """Return candidate windows of the described event, best first, down to score .01."""
        if not encoding.windows:
            return []
        return candidates(encoding.windows, self._event_scores(encoding, event))

    def describe(self, encoding: Any, start: int, end: int, question: str | None = None) -> str:
        """Describe frames ``[start, end)``, in order of time.

        Each window with its middle in the range, else the nearest one, contributes a text. The
        question is ignored, because these models cannot answer one. A range without a frame gives
        "".

        Raises:
            ToolError: the model has no texts to choose from.
        """
        start, end = clamp(start, end, encoding.length)
        if start == end:
            return ""
        middles = [(first + last) / 2 for first, last in encoding.windows]
        rows = [row for row, middle in enumerate(middles) if start <= middle < end]
        if not rows:
            centre = (start + end) / 2
            rows = [min(range(len(middles)), key=lambda row: abs(middles[row] - centre))]
        return as_sentences(self._texts(encoding, rows))

    def _event_scores(self, encoding: Any, event: str) -> Iterable[float]:
        """Return the score of each window for the event; all 0 if the model cannot know it."""
        raise NotImplementedError

    def _texts(self, encoding: Any, rows: Sequence[int]) -> Iterable[str]:
        """Return the texts that fit these windows; a window that no text fits gives none."""
        raise NotImplementedError


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


def smooth(scores: Sequence[float], radius: int) -> list[float]:
    """Return each score as the mean of those up to ``radius`` places away; fewer at the ends."""
    near = [scores[max(0, i - radius) : i + radius + 1] for i in range(len(scores))]
    return [sum(values) / len(values) for values in near]


def candidates(windows: Sequence[tuple[int, int]], scores: Iterable[float]) -> list[EventWindow]:
    """Return the events in scored windows, which are in the order of their starts."""
    scored = zip(windows, scores, strict=True)
    return merge_windows([EventWindow(*window, float(score)) for window, score in scored])


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
        frames = set(range(whole.start, whole.end))
        covered = frames.intersection(f for event in events for f in range(event.start, event.end))
        if 2 * len(covered) <= len(frames):
            events.append(whole)
    return events


def _joins(windows: Sequence[EventWindow], left: int, right: int, best: float) -> bool:
    enough = min(windows[left].score, windows[right].score) >= NEIGHBOUR_SHARE * best
    return enough and windows[left].end >= windows[right].start


def as_sentences(texts: Iterable[str]) -> str:
    """Return the different texts in order, each with a period; ``nothing happens.`` without
    texts.
    """
    different = dict.fromkeys(text.strip().rstrip(".") for text in texts)
    return " ".join(f"{text}." for text in different if text) or NOTHING
