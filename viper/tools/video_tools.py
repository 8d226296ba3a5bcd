"""Tool functions that read a video more closely than its kept frames show.

As in :mod:`viper.tools.tool_functions`, each takes the session of the run and the arguments of the
program.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.media_files import MAX_FRAMES
from viper.sandbox import Ref
from viper.schema import clip_id
from viper.tools.session import ToolSession
from viper.tools.tracking import segment_span, track_objects

# Key frames serve looks farther apart than this: most files have one every 2 to 10 seconds.
_APART_S = 4.0

# Seconds between two looks that are compared, and most of them: key frames suffice from half an
# hour on. A frame is compared at so many places along each side.
_LOOK_S, _MOST_LOOKS, _PLACES = 1.0, 450, 32

# Seconds before the end at which the last look is.
_END_S = 0.001


def read_clip(
    session: ToolSession,
    segment: Any,
    start: float | None,
    end: float | None,
    count: int,
    roughly: bool = False,
) -> Ref:
    """Return a video of the frames that the file shows at ``count`` moments from start to end.

    Args:
        start, end: seconds from the start of the video; None is the segment's own start or end.
        count: of moments, evenly spread; a frame that is shown at several of them is there once.
        roughly: read the key frames before the moments if these are far apart.
    """
    if not 1 <= int(count) <= MAX_FRAMES:
        raise ToolError(
            f"{int(count):,} frames; expected 1 to {MAX_FRAMES} at once: look at a shorter part, "
            "or at fewer frames of it"
        )
    media, (begin, until) = session.media, segment_span(session, segment)
    begin = begin if start is None else float(start)
    until = until if end is None else float(end)
    if not 0 <= begin < until or begin >= media.seconds:
        raise ToolError(
            f"{begin:g} to {until:g} s; expected a part of the video, which is "
            f"{media.seconds:g} s long"
        )
    keys = bool(roughly) and (until - begin) / int(count) > _APART_S
    name = clip_id(begin, until - begin, int(count), keys)  # past the end it shows the last frame
    frames = media.frames(name)
    if keys and 2 * len(frames) < int(count):  # a file with few of them
        return read_clip(session, segment, begin, until, count)
    return Ref("video", (name, len(frames), frames.shape[2], frames.shape[1]))


def changed_spans(session: ToolSession, segment: Any, count: int) -> list[list[float]]:
    """Return the spans in which a segment's picture changes most, in order of time.

    Looks are :data:`_LOOK_S` seconds apart, and those of long segments farther. Frames are compared
    at few places each, by the mean difference of their values.

    Args:
        count: of spans between two looks, at most.

    Returns:
        ``[start, end]`` of each, in seconds from the start of the file.
    """
    if not 1 <= int(count) <= _MOST_LOOKS:
        raise ToolError(f"{int(count):,} spans; expected 1 to {_MOST_LOOKS}")
    begin, until = segment_span(session, segment)
    seconds = max(until - begin - _END_S, _END_S)
    looks = min(_MOST_LOOKS, ceil(seconds / _LOOK_S)) + 1
    step = seconds / (looks - 1)
    times, changes, last = list[float](), list[float](), None
    for first in range(0, looks, MAX_FRAMES):
        part, start = min(MAX_FRAMES, looks - first), begin + first * step
        video = read_clip(session, segment, start, start + part * step, part, True)
        session.payer.check_running()
        frames = session.media.frames(str(video.fields[0]))
        rows, columns = (max(1, side // _PLACES) for side in frames.shape[1:3])
        places = frames[:, rows // 2 :: rows, columns // 2 :: columns].astype(np.int16)
        for time, now in zip(frame_times(session, video), places, strict=True):
            if times and time <= times[-1]:  # one that the last part showed already
                continue
            if last is not None:
                changes.append(float(np.abs(now - last).mean()))
            times.append(time)
            last = now
    most = sorted(np.argsort(changes)[::-1][: int(count)].tolist())
    return [[times[index], times[index + 1]] for index in most if changes[index] > 0]


def frame_times(session: ToolSession, segment: Any) -> list[float]:
    """Return the seconds from the start of the video to each frame of a segment."""
    video_id, start, end = session.segment(segment)
    return [round(time, 3) for time in session.media.frame_times(video_id)[start:end]]


VIDEO_TOOLS: dict[str, Callable[..., Any]] = {
    tool.__name__: tool
    for tool in (read_clip, changed_spans, frame_times, segment_span, track_objects)
}
