"""``VideoSegment``: a range of frames of a video, and the questions a program may ask about it.

Lives in the sandbox child: a video handle and two frame numbers. Source: names
and signatures of ViperGPT and of the temporal routines as listed by Stanić et
al. 2024, A.4.3 and A.4.4. Differs: an event that is not found gives an empty
segment, and an empty segment answers "" without asking a model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from viper.api.expressions import is_true
from viper.api.image_patch import ImagePatch
from viper.api.registry import UNLISTED, method
from viper.api.runtime import Caller, ImageHandle, VideoHandle, frame_number, number, text, texts

# ``(start, end)`` counted in the whole video, end exclusive, possibly empty.
FrameRange = tuple[int, int]

# Stanić et al. list these two for both APIs on videos.
_BOTH = ("vipergpt", "abstract")
_CHOICE = ("choice",)

# The API of names that read a long video in parts.
LONG = "long_video"

# ``(start, end)`` in seconds from the start of the file, each.
Moments = list[tuple[float, float]]

# Frames that a close look takes: as many as are read at once.
_CLOSE = 64


class VideoSegment:
    """A range of frames of a video.

    ``start`` and ``end`` are frame numbers of the original video, counted from 0. ``end`` is
    the first frame after the segment, and ``num_frames`` is ``end - start``. A segment may be
    empty: its ``num_frames`` is then 0.
    """

    __slots__ = ("_handle", "_range")
    _handle: VideoHandle
    _range: FrameRange

    def __init__(self, video: Any, start: int | None = None, end: int | None = None) -> None:
        """Build a segment of a whole video, or of its frames from ``start`` up to ``end``.

        The frame ``end`` is not included. ``video`` may also be another segment: the frames
        then count from its start.
        """
        if isinstance(video, VideoSegment):
            self._handle, within = video._handle, video._range
        elif isinstance(video, VideoHandle):
            self._handle, within = video, (0, video.num_frames)
        else:
            raise TypeError(f"VideoSegment needs a video or a segment, not {type(video).__name__}")
        self._range = trimmed(within, _frame(start, "start"), _frame(end, "end"))

    @classmethod
    def _at(cls, handle: VideoHandle, frames: FrameRange) -> VideoSegment:
        """A segment at absolute frames of the handle's video; for our own code."""
        segment = cls.__new__(cls)
        segment._handle = handle
        segment._range = frames
        return segment

    @property
    def start(self) -> int:
        return self._range[0]

    @property
    def end(self) -> int:
        return self._range[1]

    @property
    def num_frames(self) -> int:
        return self.end - self.start

    @method(_CHOICE, api=_BOTH)
    def trim(self, start: int | None = None, end: int | None = None) -> VideoSegment:
        """Keep a range of frames.

        ``start`` and ``end`` count from the start of this segment and are cut off at its
        ends, so negative numbers mean its first frame. The frame ``end`` is not included.

        Example:
            # What does the girl do in the first half?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                first_half = video_segment.trim(0, video_segment.num_frames // 2)
                info = first_half.caption_video("What does the girl do?")
                return select_answer(info, question, possible_answers)
        """
        return VideoSegment(self, start, end)

    @method(_CHOICE)
    def frame_from_index(self, index: int) -> ImagePatch:
        """Take one frame.

        Return it as a patch of the whole frame. ``index`` counts from the start of this
        segment, and -1 is the last frame. An index that the segment does not have raises
        IndexError.

        Example:
            # What stands on the table at the end?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                last_frame = video_segment.frame_from_index(-1)
                info = last_frame.simple_query("What stands on the table?")
                return select_answer(info, question, possible_answers)
        """
        return ImagePatch(self.frame_handle(index))

    @method(_CHOICE)
    def frame_iterator(self) -> Iterator[ImagePatch]:
        """Go through all frames.

        Yield each frame as a patch, in order of time; nothing for an empty segment.

        Example:
            # In how many frames is a dog to be seen?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                frames_with_dog = 0
                for frame in video_segment.frame_iterator():
                    if frame.exists("dog"):
                        frames_with_dog += 1
                info = {"frames with a dog": frames_with_dog}
                return select_answer(info, question, possible_answers)
        """
        # A list's iterator, not a generator: a generator would hand its frame object to programs.
        return iter([self.frame_from_index(index) for index in range(self.num_frames)])

    @method(_CHOICE, api="abstract", summary="part of the video during an event", needs="video")
    def get_video_segment_of_event(self, event: str) -> VideoSegment:
        """Return the part of the video during an event.

        The part is empty if the event does not happen in this segment.

        Example:
            # Who watches while the boy climbs the tree?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                climbing = video_segment.get_video_segment_of_event("the boy climbs the tree")
                if climbing.num_frames == 0:
                    climbing = video_segment
                info = climbing.simple_query("Who watches?")
                return select_answer(info, question, possible_answers)
        """
        return VideoSegment._at(self._handle, during(self._range, self._locate(event)))

    @method(_CHOICE, api="abstract", summary="part of the video before an event", needs="video")
    def get_video_segment_before_event(self, event: str) -> VideoSegment:
        """Return the part of the video before an event.

        It goes from the start of this segment up to the event, and is empty if the event
        does not happen in this segment.

        Example:
            # What did the woman do before she sat down?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                earlier = video_segment.get_video_segment_before_event("the woman sits down")
                if earlier.num_frames == 0:
                    earlier = video_segment
                info = earlier.caption_video("What does the woman do?")
                return select_answer(info, question, possible_answers)
        """
        return VideoSegment._at(self._handle, before(self._range, self._locate(event)))

    @method(_CHOICE, api="abstract", summary="part of the video after an event", needs="video")
    def get_video_segment_after_event(self, event: str) -> VideoSegment:
        """Return the part of the video after an event.

        It goes from the end of the event to the end of this segment, and is empty if the
        event does not happen in this segment.

        Example:
            # What does the bird do after the door opens?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                later = video_segment.get_video_segment_after_event("the door opens")
                if later.num_frames == 0:
                    later = video_segment
                info = later.caption_video("What does the bird do?")
                return select_answer(info, question, possible_answers)
        """
        return VideoSegment._at(self._handle, after(self._range, self._locate(event)))

    @method(_CHOICE, api="abstract", needs="video")
    def caption_video(self, question: str | None = None) -> str:
        """Describe what happens in the video.

        Return sentences in order of time, or "" for an empty segment. ``question`` names
        the subject that the description should treat.

        Example:
            # Why does the man turn round?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                info = video_segment.caption_video("Why does the man turn round?")
                return select_answer(info, question, possible_answers)
        """
        return self._ask("caption_video", question)

    @method(_CHOICE, api=_BOTH, needs="video")
    def simple_query(self, question: str | None = None) -> str:
        """Ask a question about the video.

        Ask for something that a look at the segment answers, and get a text, or "" for an
        empty segment.

        Example:
            # Where does this take place?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                info = video_segment.simple_query("Where does this take place?")
                return select_answer(info, question, possible_answers)
        """
        return self._ask("simple_query", question)

    @method(_CHOICE, api=LONG)
    def overview(self, count: int = 32) -> VideoSegment:
        """Look at the whole segment with few frames.

        Return a segment of at most ``count`` frames of the video file, evenly spread, at most
        64; frames that are far apart are those of the file that are read fastest.

        Example:
            # Is there ever a dog in the yard?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                frames = video_segment.overview(24).frame_iterator()
                info = {"dog seen": any(frame.exists("dog") for frame in frames)}
                return select_answer(info, question, possible_answers)
        """
        return self._clip(None, None, number(count, "count"), roughly=True)

    @method(_CHOICE, api=LONG)
    def skim(
        self, start: float | None = None, end: float | None = None, step: float = 1.0
    ) -> VideoSegment:
        """Look at a part of the video with a frame every ``step`` seconds.

        ``start`` and ``end`` are seconds from the start of the video file, by default those of
        this segment. At most 64 frames are read at once.

        Example:
            # What does the man carry in the first minute?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                minute = video_segment.skim(0, 60, 2)
                carried = [frame.simple_query("What does the man carry?")
                           for frame in minute.frame_iterator() if frame.exists("man")]
                return select_answer(carried, question, possible_answers)
        """
        begin, until = self._call("segment_span", self)
        every = _above_0(step, "step")
        first = begin if start is None else float(number(start, "start"))
        last = until if end is None else float(number(end, "end"))
        count = max(1, math.ceil((last - first) / every - 1e-6))
        return self._clip(first, first + count * every, count)

    @method(_CHOICE, api=LONG)
    def focus(self, moment: float, around: float = 2.0) -> VideoSegment:
        """Look closely at a moment.

        Return the frames from ``around`` seconds before it to as many after it, up to 64 of
        them. ``moment`` is in seconds from the start of the video file.

        Example:
            # What does the cat do when it jumps?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                overview = video_segment.overview(48)
                for index, frame in enumerate(overview.frame_iterator()):
                    if frame.exists("cat"):
                        close = overview.focus(overview.time_of(index))
                        info = close.caption_video("What does the cat do?")
                        return select_answer(info, question, possible_answers)
                return select_answer("no cat", question, possible_answers)
        """
        middle, half = float(number(moment, "moment")), _above_0(around, "around")
        return self._clip(max(0.0, middle - half), middle + half, _CLOSE)

    @method(_CHOICE, api=LONG)
    def changes(self, count: int = 8) -> list[tuple[float, float]]:
        """Find when the picture changes most.

        Return at most ``count`` spans ``(start, end)`` in order of time, in seconds from the start
        of the video file. They are about a second long, and half a minute in a video of hours.

        Example:
            # Who comes to the door?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                for start, end in video_segment.changes(12):
                    for frame in video_segment.focus(end).frame_iterator():
                        if frame.exists("person"):
                            info = frame.simple_query("Who is at the door?")
                            return select_answer(info, question, possible_answers)
                return select_answer("nobody", question, possible_answers)
        """
        found = self._call("changed_spans", self, int(number(count, "count")))
        return [(start, end) for start, end in found]

    @method(_CHOICE, api=LONG)
    def time_of(self, index: int) -> float:
        """Tell when a frame of this segment is shown.

        Return seconds from the start of the video file; -1 is the last frame.

        Example:
            # When is the gate open for the first time?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                overview = video_segment.overview(64)
                for index, frame in enumerate(overview.frame_iterator()):
                    if frame.verify_property("gate", "open"):
                        info = {"open after seconds": overview.time_of(index)}
                        return select_answer(info, question, possible_answers)
                return select_answer("never", question, possible_answers)
        """
        times = self._call("frame_times", self)
        return float(times[frame_number(index, self.num_frames)])

    @method(_CHOICE, api=LONG, needs="detector")
    def tracks(self, object_name: str | list[str], rate: float = 5.0) -> list[dict[str, Any]]:
        """Follow all objects of a name, or of any of several names, through this segment.

        Return one track for each object: a dict with ``id``, ``start`` and ``end`` in seconds
        from the start of the video file, and the lists ``times`` and ``patches`` of when and
        where it was seen. ``rate`` frames a second are looked at.

        Example:
            # How many cars are there in the video?
            def execute_command(video, question, possible_answers):
                video_segment = VideoSegment(video)
                cars = video_segment.tracks("car")
                info = {"cars": len(cars), "seconds": [car["end"] - car["start"] for car in cars]}
                return select_answer(info, question, possible_answers)
        """
        every = _above_0(rate, "rate", "frames a second")
        found = self._call("track_objects", self, texts(object_name, "object_name"), every)
        width, height = found["size"]
        handles = [
            ImageHandle(f"{found['clips'][part]}#{index}", width, height, self._call)
            for part, index in found["places"]
        ]
        tracks: list[dict[str, Any]] = []
        for boxes in found["tracks"]:
            times = [found["times"][frame] for frame, *_ in boxes]
            patches = [ImagePatch(handles[frame], *box) for frame, *box in boxes]
            track = {"id": len(tracks) + 1, "start": times[0], "end": times[-1]}
            tracks.append({**track, "times": times, "patches": patches})
        return tracks

    @method(_CHOICE, api=LONG)
    def moments(
        self,
        condition: Callable[[ImagePatch], bool],
        step: float = 1.0,
        within: float | None = None,
    ) -> list[tuple[float, float]]:
        """Find when a condition holds, with a frame every ``step`` seconds.

        ``condition`` is a function of a frame; "no" does not hold. Return ``(start, end)`` of
        each time that it holds, in seconds from the start of the video file. In a long video,
        take a large ``step`` and ``within``: where the condition changes from one frame to the
        next, frames between them are looked at until the change is known to so many seconds.

        Example:
            # How long is the light red, all together?
            def execute_command(video, question, possible_answers):
                def is_red(frame):
                    return frame.verify_property("traffic light", "red")

                video_segment = VideoSegment(video)
                red = video_segment.moments(is_red, step=0.5)
                info = {"seconds of red": sum(end - start for start, end in red)}
                return select_answer(info, question, possible_answers)
        """
        first, last = self._call("segment_span", self)
        every = _above_0(step, "step")
        close = None if within is None else _above_0(within, "within")
        looks: dict[float, bool] = {}
        while first < last:
            count = min(_CLOSE, max(1, math.ceil((last - first) / every - 1e-6)))
            part = self._clip(first, first + count * every, count, bool(close))
            for index, time in enumerate(part._call("frame_times", part)):
                if time not in looks:
                    looks[time] = is_true(condition(part.frame_from_index(index)))
            first += count * every
        times = sorted(looks)
        for early, late in zip(times, times[1:], strict=False) if close else ():
            if looks[early] != looks[late]:
                self._seek_change(condition, looks, early, late, close or every)
        times = sorted(looks)
        return joined_moments(times, [looks[time] for time in times], 0)

    def _seek_change(
        self,
        condition: Callable[[ImagePatch], bool],
        looks: dict[float, bool],
        early: float,
        late: float,
        close: float,
    ) -> None:
        """Add looks between two that differ, until two that differ are so close together."""
        while late - early > close:
            part = self.skim(early, late, max(close, (late - early) / _CLOSE))
            between = [(index, time) for index, time in enumerate(part._call("frame_times", part))
                       if early < time < late]  # fmt: skip
            if not between:
                return
            while between:
                middle = len(between) // 2
                index, time = between[middle]
                looks[time] = is_true(condition(part.frame_from_index(index)))
                if looks[time] == looks[early]:
                    early, between = time, between[middle + 1 :]
                else:
                    late, between = time, between[:middle]

    @method(UNLISTED)
    def select_answer(self, info: Any, question: str, options: Sequence[str]) -> str:
        """Select the answer among options; the same as the function of that name."""
        choices = texts(options, "options")
        return str(self._call("select_answer", info, text(question, "question"), choices))

    def frame_handle(self, index: float) -> ImageHandle:
        """The picture behind :meth:`frame_from_index`.

        Raises:
            IndexError: when the segment has no such frame.
        """
        return self._handle.frame_handle(self.start + frame_number(index, self.num_frames))

    @property
    def _call(self) -> Caller:
        return self._handle.call

    def _clip(
        self, start: float | None, end: float | None, count: float, roughly: bool = False
    ) -> VideoSegment:
        return VideoSegment(self._call("read_clip", self, start, end, int(count), roughly))

    def _ask(self, tool: str, question: str | None) -> str:
        if question is not None:
            text(question, "question")
        return str(self._call(tool, self, question)) if self.num_frames else ""

    def _locate(self, event: str) -> FrameRange:
        """The event's frames in the whole video; ``(start, start)`` when it is not found."""
        text(event, "event")
        if not self.num_frames:
            return (self.start, self.start)
        start, end = self._call("locate_event", self, event)
        return (int(start), int(end))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VideoSegment):
            return NotImplemented
        return self._handle.id == other._handle.id and self._range == other._range

    def __hash__(self) -> int:
        return hash((self._handle.id, self._range))

    def __repr__(self) -> str:
        return f"VideoSegment({self.start}, {self.end})"


def joined_moments(times: Sequence[float], holds: Sequence[bool], least: float) -> Moments:
    """Return from when to when something holds, in seconds.

    A change is halfway between two times.

    Args:
        times, holds: when it was looked at, and whether it held then.
        least: a shorter time in which it does not hold counts as if it did.
    """
    found: Moments = []
    for index, time in enumerate(times):
        if not holds[index]:
            continue
        earlier, later = times[max(0, index - 1)], times[min(index + 1, len(times) - 1)]
        start, end = (earlier + time) / 2, (time + later) / 2
        if found and start - found[-1][1] < max(least, 1e-9):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def _above_0(value: Any, name: str, unit: str = "seconds") -> float:
    """Return a number above 0 that a program gave."""
    found = float(number(value, name))
    if found <= 0:
        raise ValueError(f"{name} must be above 0 {unit}, not {found:g}")
    return found


def _frame(value: Any, name: str) -> int | None:
    return None if value is None else int(number(value, name))


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
