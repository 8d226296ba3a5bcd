"""The tool function ``track_objects``: follows things through a video on the detector's boxes.

The file is read at a fixed rate, some seconds at a time. The detector answers about each frame, and
ByteTrack (Zhang et al. 2022, "ByteTrack: Multi-Object Tracking by Associating Every Detection Box")
of the library ``supervision`` decides which boxes are of one object. ``docs/design/tracks.md`` says
why this library.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import ceil
from typing import Any

import numpy as np

from viper.agreement import box_iou
from viper.errors import ToolError
from viper.models.libraries import LazyModule
from viper.models.media_files import MAX_FRAMES
from viper.models.vision.boxes import suppress
from viper.models.vision.roles import Detection
from viper.sandbox import Ref
from viper.schema import PixelBox, clip_id
from viper.tools.session import ToolSession
from viper.tools.tool_functions import detections

_library: Any = LazyModule("supervision")

# Frames of one call: an hour at five a second.
MOST_FRAMES = 20_000

# Frames a second: more than videos have.
MOST_RATE = 240

# Seconds for which an object may be hidden and is still the same.
_HIDDEN_S = 2.0

# Boxes below a threshold may continue a track down to this share of it (ByteTrack's second round).
_WEAK = 0.5

# ByteTrack weighs overlaps by scores of a detector trained like its authors'. Scores of others are
# mapped to its range: those above the threshold to .8 and more, weaker ones to .3 to .5. In between
# stands the score that begins a track, .6 and the .1 that the library adds.
_BEGINS = 0.6

# Share of the picture's sides within which an object may come in and go out.
_EDGE = 0.02

# Overlap (IoU) of two objects after which either may have the other's number.
_MIXED = 0.5

# Frames in which an object is seen, at least: a single box is more often a mistake.
_LEAST_SEEN = 2


# Boxes of one object by the number of the frame.
_Track = dict[int, PixelBox]


class Tracker:
    """Gives the boxes of one frame after another the number of their object.

    Args:
        rate: frames a second.
        threshold: score from which a box may begin a track.
        overlap: least IoU of a box with the place where the object is expected.

    Raises:
        ToolError: the library is not installed.
    """

    def __init__(self, rate: float, threshold: float, overlap: float) -> None:
        self.threshold = threshold
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # deprecated, see docs/design
                self._library = _library.ByteTrack(
                    track_activation_threshold=_BEGINS,
                    lost_track_buffer=max(1, ceil(_HIDDEN_S * rate)),
                    minimum_matching_threshold=1 - overlap,
                    frame_rate=30,  # so that the buffer counts frames
                )
        except ModuleNotFoundError:
            raise ToolError(
                "tracks need the library supervision; "
                "install it with: pip install 'viper-reasoner[tracks]'"
            ) from None

    def update(self, boxes: Sequence[Detection]) -> dict[int, PixelBox]:
        """Return the boxes of the next frame by the number of their object, from 1."""
        used = [box for box in boxes if box.score >= _WEAK * self.threshold]
        corners = np.array([box.box for box in used], np.float32).reshape(-1, 4)
        scores, least = np.array([box.score for box in used], np.float32), self.threshold
        sure = 0.8 + 0.2 * (scores - least) / max(1 - least, 1e-6)
        scores = np.where(scores < least, 0.1 + 0.4 * scores / max(least, 1e-6), sure)
        given = _library.Detections(
            xyxy=corners, confidence=scores, data={"number": np.arange(len(used))}
        )
        tracked = self._library.update_with_detections(given)
        numbers = tracked.data.get("number", ())
        return {
            int(track): used[int(number)].box
            for track, number in zip(tracked.tracker_id, numbers, strict=True)
        }


def track_objects(
    session: ToolSession, segment: Any, object_name: str | list[str], rate: float
) -> dict[str, Any]:
    """Return where each object of a name, or of any of several names, is in a segment.

    A box may begin a track from ``detector.threshold`` on; ``tracker.threshold`` is the least
    overlap of an object with the place where it is expected. Tracks that begin or end inside the
    picture, and objects that cover each other, are noted: numbers may have been lost or swapped.

    Returns:
        ``clips``: names of the parts that were read; ``times``: seconds to each frame from the
        start of the file; ``places``: number of the part of each frame, and its number there;
        ``tracks``: for each object its boxes ``[frame, left, lower, right, upper]``, in pixels from
        the bottom-left corner.

    Raises:
        ToolError: too many frames, no file, no detector, or no library.
    """
    if not 0 < rate <= MOST_RATE:
        raise ToolError(f"rate is {rate:g} frames a second; expected up to {MOST_RATE}")
    media, threshold = session.media, session.threshold("detector.threshold")
    names = [object_name] if isinstance(object_name, str) else list(object_name)
    names = [session.toolbox.settings.in_models_words(name) for name in names]
    tracker = Tracker(rate, threshold, session.threshold("tracker.threshold"))
    clips: list[str] = []
    times: list[float] = []
    places: list[list[int]] = []
    scores: list[float] = []
    seen: dict[int, _Track] = {}
    size = (0, 0)
    for name, number, time in _frames(session, segment, rate):
        session.payer.check_running()  # an hour takes minutes
        if not clips or clips[-1] != name:
            clips.append(name)
        frames = media.frames(name)
        size = (frames.shape[2], frames.shape[1])
        region = session.region(Ref("image", (f"{name}#{number}", *size)))
        boxes = [box for each in names for box in detections(session, region, each)]
        if len(names) > 1:  # an object that has two of them has two boxes
            corners = np.array([box.box for box in boxes], np.float32).reshape(-1, 4)
            boxes = suppress(corners, np.array([box.score for box in boxes], np.float32))
        scores += [box.score for box in boxes]
        for track, box in tracker.update(boxes).items():
            seen.setdefault(track, {})[len(times)] = box
        times.append(round(time, 3))
        places.append([len(clips) - 1, number])
    session.record_scores("detector.threshold", scores, keeps_all=True)
    tracks = [each for each in seen.values() if len(each) >= _LEAST_SEEN]
    session.note_left_out(_doubts(tracks, len(times), size))
    return {
        "clips": clips,
        "size": list(size),
        "times": times,
        "places": places,
        "tracks": [
            [
                [at, *(round(v, 1) for v in (x0, size[1] - y1, x1, size[1] - y0))]
                for at, (x0, y0, x1, y1) in each.items()
            ]
            for each in tracks
        ],
    }


def segment_span(session: ToolSession, segment: Any) -> tuple[float, float]:
    """Return start and end of a segment, in seconds from the start of the video's file."""
    media, (video_id, first, last) = session.media, session.segment(segment)
    times = (*media.frame_times(video_id), media.end_of(video_id))
    return times[first], times[last]


def _frames(session: ToolSession, segment: Any, rate: float) -> Iterator[tuple[str, int, float]]:
    """Yield name of the clip, number within it, and time of frames at a rate."""
    media, (begin, until) = session.media, segment_span(session, segment)
    count = ceil((until - begin) * rate - 1e-6)
    if count > MOST_FRAMES:
        raise ToolError(
            f"{count:,} frames at {rate:g} a second; at most {MOST_FRAMES:,} are followed: "
            "take a part of the video with skim or focus, or a lower rate"
        )
    before = -1.0
    for start in range(0, count, MAX_FRAMES):
        part = min(MAX_FRAMES, count - start)
        name = clip_id(begin + start / rate, part / rate, part)
        for number, time in enumerate(media.frame_times(name)):
            if time > before:  # one that the last part showed already
                yield name, number, time
            before = max(before, time)


def _doubts(tracks: Sequence[_Track], frames: int, size: tuple[int, int]) -> str:
    """Return in words what speaks against the numbers of objects; "" for nothing."""
    torn, in_frame = 0, defaultdict[int, list[int]](list)
    for number, boxes in enumerate(tracks):
        first, last = min(boxes), max(boxes)
        torn += first > 0 and not _at_edge(boxes[first], size)
        torn += last < frames - 1 and not _at_edge(boxes[last], size)
        for frame in boxes:
            in_frame[frame].append(number)
    mixed = {
        pair
        for frame, numbers in in_frame.items()
        for pair in combinations(numbers, 2)
        if box_iou(*(tracks[number][frame] for number in pair)) > _MIXED
    }
    words = []
    if torn:
        words.append(f"objects appear or vanish inside the picture {torn} times")
    if mixed:
        words.append(f"{len(mixed)} pairs of objects cover each other")
    return ", ".join(words)


def _at_edge(box: PixelBox, size: tuple[int, int]) -> bool:
    (x0, y0, x1, y1), (width, height) = box, size
    across, along = _EDGE * width, _EDGE * height
    return x0 <= across or y0 <= along or x1 >= width - across or y1 >= height - along
