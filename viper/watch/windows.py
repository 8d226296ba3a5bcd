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

from viper.errors import MediaError, UsageError
from viper.models.decoding import decode, limited
from viper.models.media import Media
from viper.storage.files import file_errors

# A file in a folder is complete when it has not grown for this long, in seconds: recorders write at
# least once a second.
SETTLED_S = 5.0

# Seconds between two looks at a folder.
_POLL_S = 1.0

# Windows of one frame that are read at once: opening a file takes as long as some frames.
_AHEAD = 16

# The times of frames are rounded by containers, in seconds.
_EARLY_S = 0.002

# Frames of a window that are read for its program; more it reads itself (``skim``, ``tracks``).
_FRAMES = 8


@dataclass(frozen=True)
class Window:
    """A part of a file.

    Attributes:
        number: of the window in its file, from 0.
        start, end: its core, in seconds from the start of the file.
        is_last: no other follows in the file.
        media: one frame, that of the start, or a video with the margins.
    """

    path: Path
    number: int
    start: float
    end: float
    is_last: bool
    media: Media


def windows(
    path: Path, every: float, margin: float, *, video: bool, first: int = 0
) -> Iterator[Window]:
    """Yield the windows of a file.

    Args:
        every: length of a core, in seconds.
        margin: seconds before and after it that a video also has.
        video: the program takes a video; else a picture.
        first: number of the first window.

    Raises:
        MediaError: the file cannot be read, or is no video.
    """
    number, length = first, float("inf")
    while number * every < length:
        starts = [(number + index) * every for index in range(1 if video else _AHEAD)]
        times = starts
        if video:
            begin = max(0.0, starts[0] - margin)
            step = (starts[0] + every + margin - begin) / _FRAMES
            times = [begin + step * index for index in range(_FRAMES)]
        with limited():
            decoded = decode(path, times=times)
        if decoded.pixels.ndim != 4:
            raise MediaError(f"{path}: is a picture; expected a video")
        if not (length := decoded.seconds):
            raise MediaError(f"{path}: does not say how long it is; save it again as MP4")
        for start in starts:
            if start >= length:  # also if a process was killed after the last window
                return
            if video:
                media = Media(
                    video=decoded.pixels,
                    names=(path.name,),
                    times=decoded.times,
                    seconds=min(start + every + margin, length),
                    paths=(path,),
                )
            else:
                shown = max(0, bisect_right(decoded.times, start + _EARLY_S) - 1)
                media = Media((decoded.pixels[shown],), names=(path.name,))
            end = min(start + every, length)
            yield Window(path, number, start, end, start + every >= length, media)
            number += 1


def files(source: Path, last: str, *, is_done: bool, once: bool) -> Iterator[Path]:
    """Yield the files of a source in the order of their names, and wait for further ones.

    Args:
        source: a video file, or a folder of them.
        last: name of the file that was read last; those before it are done. "" for none.
        is_done: it was read to its end.
        once: end when all that are there were yielded, instead of waiting.

    Raises:
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
        fresh = False
        with file_errors(source):
            found = sorted(source.iterdir())
        for path in found:
            is_read = path.name < last or (path.name == last and is_done)
            if is_read or path.name.startswith(".") or not path.is_file():
                continue
            with suppress(FileNotFoundError):  # the next look decides
                # a clock of another machine may be ahead
                if not once and 0 <= time.time() - path.stat().st_mtime < SETTLED_S:
                    break  # the next look takes it, before those after it
            yield path
            last, is_done, fresh = path.name, True, True
        if once and not fresh:
            return
        if not fresh:
            time.sleep(_POLL_S)
