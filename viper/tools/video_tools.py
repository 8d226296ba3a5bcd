"""Tool functions that read a video more closely than its kept frames show.

As in :mod:`viper.tools.tool_functions`, each takes the session of the run and the arguments of the
program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viper.errors import ToolError
from viper.models.media_files import MAX_FRAMES
from viper.sandbox import Ref
from viper.schema import clip_id
from viper.tools.session import ToolSession
from viper.tools.tracking import segment_span, track_objects

# Key frames serve looks farther apart than this: most files have one every 2 to 10 seconds.
_APART_S = 4.0


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
    return Ref("video", (name, len(frames), frames.shape[2], frames.shape[1]))


def frame_times(session: ToolSession, segment: Any) -> list[float]:
    """Return the seconds from the start of the video to each frame of a segment."""
    video_id, start, end = session.segment(segment)
    return [round(time, 3) for time in session.media.frame_times(video_id)[start:end]]


VIDEO_TOOLS: dict[str, Callable[..., Any]] = {
    tool.__name__: tool for tool in (read_clip, frame_times, segment_span, track_objects)
}
