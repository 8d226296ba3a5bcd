"""Routines on tracks: where objects of a video are, which lines they cross, how long they stay.

They run in the child on what ``VideoSegment.tracks`` returns. An object is where the centre of its
box is. Source: ours; the names are those that users of video analytics know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import hypot
from typing import Any

from viper.api.image_patch import ImagePatch
from viper.api.registry import routine
from viper.api.runtime import number
from viper.api.video_segment import LONG, Moments, joined_moments

_TASKS = ("choice",)

# The name with which prompts show a track: a dict of plain values and patches.
Track = dict[str, Any]

# An object has crossed a line when its centre is this share of its shorter side beyond it: boxes
# of one that stands on the line tremble by a few pixels.
_BEYOND = 0.1

# A shorter time outside a zone, in seconds, is a trembling box.
_LEAST_OUTSIDE_S = 1.0

DIRECTIONS = ("left", "right", "up", "down")

_Point = tuple[float, float]


@routine(_TASKS, api=LONG)
def patch_at(track: Track, moment: float) -> ImagePatch:
    """Return the object of a track as it is at a moment, in seconds from the start of the video.

    This is the patch whose time is nearest to it.

    Example:
        # What does the first dog carry when it leaves?
        def execute_command(video, question, possible_answers):
            video_segment = VideoSegment(video)
            dogs = video_segment.tracks("dog")
            info = "no dog"
            if dogs:
                info = patch_at(dogs[0], dogs[0]["end"]).simple_query("What does the dog carry?")
            return select_answer(info, question, possible_answers)
    """
    at = float(number(moment, "moment"))
    times, patches = _seen(track)
    nearest = min(range(len(times)), key=lambda index: abs(times[index] - at))
    return patches[nearest]


@routine(_TASKS, api=LONG)
def speed(track: Track) -> float:
    """Return how fast an object moves, in pixels a second: the length of its way by its time.

    Example:
        # Which car is faster, the first or the second one?
        def execute_command(video, question, possible_answers):
            video_segment = VideoSegment(video)
            cars = video_segment.tracks("car")
            info = {f"speed of car {i + 1}": speed(car) for i, car in enumerate(cars)}
            return select_answer(info, question, possible_answers)
    """
    times, patches = _seen(track)
    way = sum(hypot(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(map(_centre, patches)))
    return way / (times[-1] - times[0]) if times[-1] > times[0] else 0.0


@routine(_TASKS, api=LONG)
def crosses(
    track: Track, line: Sequence[Sequence[float]], direction: str | None = None
) -> list[float]:
    """Return the times at which an object crosses a line, in seconds; an empty list for never.

    ``line`` is two points ``((x, y), (x, y))`` in pixels from the bottom-left corner of the frame.
    ``direction`` counts only those who move "left", "right", "up" or "down" there.

    Example:
        # When does the ball cross the middle of the picture?
        def execute_command(video, question, possible_answers):
            video_segment = VideoSegment(video)
            frame = video_segment.frame_from_index(0)
            middle = ((frame.width / 2, 0), (frame.width / 2, frame.height))
            info = [crosses(ball, middle) for ball in video_segment.tracks("ball")]
            return select_answer(info, question, possible_answers)
    """
    first, last = _points(line, "line", 2, 2)
    across, along = last[0] - first[0], last[1] - first[1]
    length = hypot(across, along)
    if not length:
        raise ValueError("line has two equal points; expected different ones")
    if direction is not None and direction not in DIRECTIONS:
        raise ValueError(f"direction is {direction!r}; expected {', '.join(DIRECTIONS)} or None")
    times, patches = _seen(track)
    found: list[float] = []
    before: tuple[float, _Point] | None = None  # the last place clearly on one side
    began: float | None = None  # when the centre came to the other side
    for time, patch in zip(times, patches, strict=True):
        centre = _centre(patch)
        side = (across * (centre[1] - first[1]) - along * (centre[0] - first[0])) / length
        if before is not None and side * before[0] >= 0:
            began = None
        elif began is None:
            began = time
        if abs(side) <= _BEYOND * min(patch.width, patch.height):
            continue
        if before is not None and side * before[0] < 0:
            share = before[0] / (before[0] - side)
            meets = [a + share * (b - a) for a, b in zip(before[1], centre, strict=True)]
            place = (across * (meets[0] - first[0]) + along * (meets[1] - first[1])) / length
            is_asked = direction is None or direction in _towards(before[1], centre, line)
            if 0 <= place <= length and is_asked:
                found.append(time if began is None else began)
        before, began = (side, centre), None
    return found


@routine(_TASKS, api=LONG)
def count_crossings(
    tracks: Sequence[Track], line: Sequence[Sequence[float]], direction: str | None = None
) -> int:
    """Count how often objects cross a line; its arguments are those of ``crosses``.

    Example:
        # How many cars drive to the left?
        def execute_command(video, question, possible_answers):
            video_segment = VideoSegment(video)
            frame = video_segment.frame_from_index(0)
            middle = ((frame.width / 2, 0), (frame.width / 2, frame.height))
            info = count_crossings(video_segment.tracks("car"), middle, "left")
            return select_answer(info, question, possible_answers)
    """
    return sum(len(crosses(track, line, direction)) for track in tracks)


@routine(_TASKS, api=LONG)
def enters(track: Track, zone: Sequence[Any]) -> list[float]:
    """Return the times at which an object comes into a zone from outside, in seconds.

    ``zone`` is a box ``(left, lower, right, upper)`` or a list of corners ``[(x, y), …]``, in
    pixels from the bottom-left corner of the frame.

    Example:
        # How often does the cat come into the left half?
        def execute_command(video, question, possible_answers):
            video_segment = VideoSegment(video)
            frame = video_segment.frame_from_index(0)
            half = (0, 0, frame.width / 2, frame.height)
            info = [enters(cat, half) for cat in video_segment.tracks("cat")]
            return select_answer(info, question, possible_answers)
    """
    return [start for start, _ in _visits(track, zone) if start > _seen(track)[0][0]]


@routine(_TASKS, api=LONG)
def dwell(track: Track, zone: Sequence[Any]) -> float:
    """Return how many seconds an object is in a zone, all its visits together.

    ``zone`` is that of ``enters``.

    Example:
        # Who waits at the door for more than a minute?
        def execute_command(video, question, possible_answers):
            video_segment = VideoSegment(video)
            door = (200, 0, 300, 400)
            people = video_segment.tracks("person")
            waiting = [person for person in people if dwell(person, door) > 60]
            info = [patch_at(one, one["start"]).simple_query("Who is this?") for one in waiting]
            return select_answer(info or "nobody", question, possible_answers)
    """
    return sum(end - start for start, end in _visits(track, zone))


def _visits(track: Track, zone: Sequence[Any]) -> Moments:
    corners = _corners(zone)
    times, patches = _seen(track)
    inside = [_is_inside(_centre(patch), corners) for patch in patches]
    return joined_moments(times, inside, _LEAST_OUTSIDE_S)


def _seen(track: Any) -> tuple[list[float], list[ImagePatch]]:
    """Return times and patches of a track.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(track, Mapping) or not {"times", "patches"} <= track.keys():
        raise TypeError(f"expected a track of VideoSegment.tracks, not {type(track).__name__}")
    return track["times"], track["patches"]


def _centre(patch: ImagePatch) -> _Point:
    return (patch.horizontal_center, patch.vertical_center)


def _towards(start: _Point, end: _Point, line: Sequence[Sequence[float]]) -> Iterator[str]:
    """Yield the directions of a movement across a line: one, or two across an oblique line."""
    across, along = abs(line[1][0] - line[0][0]), abs(line[1][1] - line[0][1])
    if along >= across / 2 and end[0] != start[0]:
        yield "right" if end[0] > start[0] else "left"
    if across >= along / 2 and end[1] != start[1]:
        yield "up" if end[1] > start[1] else "down"


def _corners(zone: Any) -> list[_Point]:
    if isinstance(zone, ImagePatch):
        zone = (zone.left, zone.lower, zone.right, zone.upper)
    flat = list(zone)
    if len(flat) == 4 and not any(isinstance(each, Iterable) for each in flat):
        left, lower, right, upper = (float(number(each, "zone")) for each in flat)
        if not (left < right and lower < upper):
            raise ValueError("zone is empty; expected (left, lower, right, upper)")
        return [(left, lower), (right, lower), (right, upper), (left, upper)]
    return _points(flat, "zone", 3, 100)


def _points(values: Any, name: str, least: int, most: int) -> list[_Point]:
    points = [tuple(float(number(part, name)) for part in point) for point in values]
    if not least <= len(points) <= most or any(len(point) != 2 for point in points):
        kind = "two points" if most == 2 else f"{least} to {most} points, or a box"
        raise ValueError(f"{name} must be {kind}, each (x, y) in pixels")
    return points  # type: ignore[return-value]


def _is_inside(point: _Point, corners: Sequence[_Point]) -> bool:
    """Return whether a ray to the right meets the polygon's sides an odd number of times."""
    x, y = point
    meetings = 0
    for (x0, y0), (x1, y1) in pairwise([*corners, corners[0]]):
        if (y0 > y) != (y1 > y):
            meetings += x < x0 + (y - y0) * (x1 - x0) / (y1 - y0)
    return meetings % 2 == 1
