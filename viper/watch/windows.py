"""Windows of a video file, one after another, as the media of a program.

A window has a core, which belongs to it alone, and a margin before and after, in which a program
sees what begins or ends at the border. :func:`windows` reads a file; :func:`files` lists those of a
source, which may be a folder that grows.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from viper.errors import MediaError, UsageError
from viper.models.decoding import decode, limited
from viper.models.media import CLIP_FPS, Media, write_mp4
from viper.storage.files import file_errors
from viper.watch.recording import Recorded, Recorder

# A file in a folder is complete when it has not grown for this long, in seconds: recorders write at
# least once a second.
SETTLED_S = 5.0

# Seconds between two looks at a folder.
_POLL_S = 1.0

# Windows of one frame that are read at once: opening a file takes as long as some frames.
_AHEAD = 16

# The times of frames are rounded by containers, in seconds.
_EARLY_S = 0.002

# Seconds of the clip of an event, half of them before it.
_CLIP_S = 6.0

# Frames of a window that are read for its program; more it reads itself (``skim``, ``tracks``).
_FRAMES = 8


@dataclass(frozen=True)
class Window:
    """A part of a file.

    Attributes:
        number: of the window in its file, from 0.
        begin: where the core of the first window of the file begins.
        start, end: its core, in seconds from the start of the file.
        is_last: no other follows in the file.
        media: one frame, that of the start, or a video with the margins.
    """

    path: Path
    number: int
    begin: float
    start: float
    end: float
    is_last: bool
    media: Media


def windows(
    path: Path, every: float, margin: float, *, video: bool, first: int = 0
) -> Iterator[Window]:
    """Yield the windows of a file.

    The cores of a file of a :mod:`viper.watch.recording` are where the margins are in it too; the
    files before and after it have the others.

    Args:
        every: length of a core, in seconds.
        margin: seconds before and after it that a video also has.
        video: the program takes a video; else a picture.
        first: number of the first window.

    Raises:
        MediaError: the file cannot be read, or is no video.
    """
    recorded = Recorded.read(path.name)
    begin = 0.0 if recorded is None else recorded.lead
    tail = 0.0 if recorded is None or recorded.is_end else margin
    if not video:
        margin = tail = 0.0
    begin = max(0.0, begin - margin)
    number, length = first, float("inf")
    while begin + number * every < length:
        starts = [begin + (number + index) * every for index in range(1 if video else _AHEAD)]
        times = starts
        if video:
            seen = max(0.0, starts[0] - margin)
            step = (starts[0] + every + margin - seen) / _FRAMES
            times = [seen + step * index for index in range(_FRAMES)]
        with limited():
            decoded = decode(path, times=times)
        if decoded.pixels.ndim != 4:
            raise MediaError(f"{path}: is a picture; expected a video")
        if not decoded.seconds:
            raise MediaError(f"{path}: does not say how long it is; save it again as MP4")
        length = decoded.seconds - tail
        for start in starts:
            if start >= length:  # also if a process was killed after the last window
                return
            if video:
                media = Media(
                    video=decoded.pixels,
                    names=(path.name,),
                    times=decoded.times,
                    seconds=min(start + every + margin, decoded.seconds),
                    paths=(path,),
                )
            else:
                shown = max(0, bisect_right(decoded.times, start + _EARLY_S) - 1)
                media = Media((decoded.pixels[shown],), names=(path.name,))
            end = min(start + every, length)
            is_last = not tail and start + every >= length
            yield Window(path, number, begin, start, end, is_last, media)
            number += 1


def files(
    source: Path, last: str, *, is_done: bool, once: bool, recorder: Recorder | None = None
) -> Iterator[Path]:
    """Yield the files of a source in the order of their names, and wait for further ones.

    Args:
        source: a video file, or a folder of them.
        last: name of the file that was read last; those before it are done. "" for none.
        is_done: it was read to its end.
        once: end when all that are there were yielded, instead of waiting.
        recorder: writes into the folder; its end is that of the files.

    Raises:
        MediaError: the stream of the recorder cannot be read.
        UsageError: there is no such file or folder.
        StoreError: the folder cannot be read.
    """
    if source.is_file():
        if not is_done:
            yield source
        return
    if not source.is_dir():
        raise UsageError(f"{source}: no such file or folder")
    while True:
        fresh, ends = False, once if recorder is None else recorder.has_ended()
        with file_errors(source):
            found = sorted(source.iterdir())
        for path in found:
            is_read = path.name < last or (path.name == last and is_done)
            if is_read or path.name.startswith(".") or not path.is_file():
                continue
            with suppress(FileNotFoundError):  # the next look decides
                # a clock of another machine may be ahead
                age = time.time() - path.stat().st_mtime
                if not once and recorder is None and 0 <= age < SETTLED_S:
                    break  # the next look takes it, before those after it
            yield path
            last, is_done, fresh = path.name, True, True
        if ends and not fresh:
            if recorder is not None:
                recorder.check()
            return
        if not fresh:
            time.sleep(_POLL_S)


def write_clip(path: Path, time: float, target: Path) -> None:
    """Write the seconds of a file around a time as MP4, :data:`CLIP_FPS` frames a second.

    Raises:
        MediaError: they cannot be read.
        StoreError: the clip cannot be written.
    """
    begin = max(0.0, time - _CLIP_S / 2)
    times = [begin + index / CLIP_FPS for index in range(round(_CLIP_S * CLIP_FPS))]
    with limited():
        frames = decode(path, times=times).pixels
    height, width = (side // 2 * 2 for side in frames.shape[1:3])  # H.264 needs even sides
    if not frames.size or not height or not width:
        raise MediaError(f"{path}: has no frames there that a clip can hold")
    with file_errors(target):
        write_mp4(target, np.ascontiguousarray(frames[:, :height, :width]), quality=26)
