"""Decodes files of pictures and videos in processes that can be killed.

A small file can keep a decoder busy for an hour, or take gigabytes. :func:`decode` asks a worker, a
process that runs :mod:`viper.models.media_files`: it tells the size of a picture before it decodes
it, waits until the pixels of all workers together are few enough, and hands the pixels over in
shared memory. A worker that takes too long, or whose run is cancelled, is killed. Idle workers stay
for the next file.

:func:`limited` sets the time and the pixels of one request, and what cancels it.
"""

from __future__ import annotations

import atexit
import json
import mmap
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from viper.errors import CancelledError, MediaError
from viper.plugins import need_packages

# Seconds for all files of one request: twice what ten minutes of video take.
DECODE_S = 60.0

# Pixels of all files of one request: two of the largest pictures, or sixteen of a phone. The kept
# frames of a video count, not those passed over.
MAX_PIXELS = 200_000_000

# Pixels that all workers hold at once: one of the largest pictures; a pixel takes up to ten bytes
# while it is decoded.
_PIXELS_AT_ONCE = 100_000_000

# Workers that decode at once where files are plain, and that stay (32 MB each): two for each core,
# as one often waits for this process to take what it has decoded. More would not be faster.
_USUAL = min(16, 2 * (os.cpu_count() or 1))

# Seconds to wait for one of them before another one starts: a photograph takes less, and a start
# about as long. Files that keep decoders busy must not keep others waiting.
_WAIT_S = 0.2

# Imports nothing from the working folder or that of a script, which may be a stranger's or hold a
# module with the name of a library's.
_START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from viper.models.media_files import main; main(int(sys.argv[2]))"
)
_HOME = Path(__file__).resolve().parents[2]

# Lets glibc keep the memory of one photograph for the next: asking the system for it anew takes a
# third of the time of decoding. Pictures beyond 8 megapixels are returned.
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}

# Seconds after which a cancelled request is noticed.
_POLL_S = 0.05

MESSAGE_BYTES = 1 << 20


@dataclass
class Limited:
    """What is left for the files of one request."""

    until: float = field(default_factory=lambda: time.monotonic() + DECODE_S)
    pixels: int = MAX_PIXELS
    cancel: threading.Event | None = None
    all_pixels: int = MAX_PIXELS


_LIMITS: ContextVar[Limited | None] = ContextVar("limits of decoding", default=None)


@contextmanager
def limited(
    seconds: float | None = None, cancel: threading.Event | None = None, pixels: int = MAX_PIXELS
) -> Iterator[Limited]:
    """Let the files that are read in this block share one budget.

    An outer block decides: its budget is not made anew.

    Args:
        seconds: until the deadline of the request; at most :data:`DECODE_S` are given.
        cancel: ends the reading soon after it is set.
        pixels: of all files together.
    """
    limits = _LIMITS.get()
    if limits is not None:
        yield limits
        return
    allowed = DECODE_S if seconds is None else max(0.0, min(seconds, DECODE_S))
    limits = Limited(time.monotonic() + allowed, pixels, cancel, pixels)
    token = _LIMITS.set(limits)
    try:
        yield limits
    finally:
        _LIMITS.reset(token)


@dataclass(frozen=True)
class Decoded:
    """The pixels of a file.

    Attributes:
        pixels: ``uint8 [H, W, 3]`` RGB of a picture, ``uint8 [T, H, W, 3]`` of a video.
        times: for a video, seconds from its start to each kept frame.
        seconds: length of a video; 0 if the file does not say.
        notes: what the file holds and was not read, in words.
        pages: number of pages of a PDF, 1 for other files.
    """

    pixels: np.ndarray[Any, Any]
    times: tuple[float, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    pages: int = 1


def decode(
    path: Path,
    page: int = 1,
    picture: bool = False,
    times: Sequence[float] = (),
    keys: bool = False,
) -> Decoded:
    """Decode a file in a worker.

    Args:
        page: of a file with several, from 1.
        picture: refuse videos.
        times: rising seconds from the start of a video; each frame that a player shows then is kept
            once. By default some are kept that are spread over the video.
        keys: take the key frame before each time instead, for which no other is decoded.

    Raises:
        MediaError: no picture or video, damaged, too large, or it takes too long.
        MissingExtraError: a package is missing.
        CancelledError: the request was cancelled.
    """
    with limited() as limits:
        worker = _WORKERS.take()
        try:
            asked = {"page": page, "picture": picture, "times": [*times], "keys": keys}
            with worker.reserved(path, limits, **asked):
                return worker.result()
        except MediaError:
            raise
        except BaseException:
            worker.in_step = False
            worker.end()
            raise
        finally:
            _WORKERS.put(worker)


class _Worker:
    """One process that decodes a file at a time."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(_HOME), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_KEPT_MEMORY},
            )
        self._path = Path()
        self._limits = Limited()
        self.in_step = True  # no reply is under way

    @contextmanager
    def reserved(self, path: Path, limits: Limited, **asked: Any) -> Iterator[None]:
        """Ask for a file, and hold its pixels until the end of the block."""
        self._path, self._limits = path, limits
        send(self.channel, {"path": str(path), "cwd": str(Path.cwd()), **asked})
        pixels = int(self._receive()[0]["pixels"])
        if pixels > limits.pixels:
            raise self._too_much(pixels)
        limits.pixels -= pixels
        with _WORKERS.pixels(pixels, limits):
            send(self.channel, {})
            yield

    def result(self) -> Decoded:
        """Return the pixels of the file."""
        reply, descriptors = self._receive()
        with os.fdopen(descriptors[0], "rb") as file:
            shape = reply["shape"]
            flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)  # one call, not one a page
            memory = mmap.mmap(file.fileno(), int(np.prod(shape)), flags)
        pixels = np.frombuffer(memory, np.uint8).reshape(shape)
        told = tuple(reply["times"]), reply["seconds"], tuple(reply["notes"]), reply["pages"]
        return Decoded(pixels, *told)

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        while not select.select([self.channel], [], [], _POLL_S)[0]:
            if self._limits.cancel is not None and self._limits.cancel.is_set():
                raise CancelledError
            if time.monotonic() > self._limits.until:
                self.end()
                raise MediaError(
                    f"{self._path}: takes too long to decode; cut it, or save it again as MP4"
                )
        data, descriptors = b"", list[int]()
        with suppress(ConnectionError):  # it ended before it had read everything
            data, descriptors, _, _ = socket.recv_fds(self.channel, MESSAGE_BYTES, 1)
        if not data:
            self.end()
            raise MediaError(
                f"{self._path}: the decoder ended (too much memory, or a defect); save it again as "
                "PNG or MP4"
            )
        reply: dict[str, Any] = json.loads(data)
        if "missing" in reply:
            need_packages((reply["missing"],), f"the file {self._path.name}")
        if "error" in reply:
            raise MediaError(reply["error"])
        return reply, descriptors

    def _too_much(self, pixels: int) -> MediaError:
        self.end()
        return MediaError(
            f"{self._path}: {pixels:,} pixels; at most {self._limits.all_pixels:,} are read "
            "for one query; give fewer pictures, or scale them down first"
        )

    def end(self) -> None:
        """Kill the process. May be called twice."""
        self.process.kill()
        self.process.wait()
        self.channel.close()


class _Workers:
    """Idle workers of this process, and the pixels that the others hold."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._idle: list[_Worker] = []
        self._busy = 0
        self._pixels = 0
        self._pid = os.getpid()
        atexit.register(self.end)

    def take(self) -> _Worker:
        """Return an idle worker, or a new one."""
        until = time.monotonic() + _WAIT_S
        with self._turn:
            if self._pid != os.getpid():  # a fork: the workers are its parent's
                self._idle, self._busy, self._pixels, self._pid = [], 0, 0, os.getpid()
            while (
                not self._idle and self._busy >= _USUAL and (left := until - time.monotonic()) > 0
            ):
                self._turn.wait(left)
            self._busy += 1
            while self._idle:
                worker = self._idle.pop()
                if worker.process.poll() is None:
                    return worker
                worker.end()
        try:
            return _Worker()
        except BaseException:
            with self._turn:
                self._busy -= 1
            raise

    def put(self, worker: _Worker) -> None:
        """Keep a worker for the next file."""
        with self._turn:
            self._busy -= 1
            self._turn.notify_all()
            is_good = worker.in_step and worker.process.poll() is None
            if is_good and len(self._idle) < _USUAL:
                self._idle.append(worker)
                return
        worker.end()

    @contextmanager
    def pixels(self, count: int, limits: Limited) -> Iterator[None]:
        """Wait until so many pixels fit, and hold them until the end of the block."""
        with self._turn:
            while self._pixels and self._pixels + count > _PIXELS_AT_ONCE:
                self._turn.wait(_POLL_S)
                if limits.cancel is not None and limits.cancel.is_set():
                    raise CancelledError
                if time.monotonic() > limits.until:
                    break  # the worker finds the same
            self._pixels += count
        try:
            yield
        finally:
            with self._turn:
                self._pixels -= count
                self._turn.notify_all()

    def end(self) -> None:
        """End the idle workers."""
        if self._pid == os.getpid():
            with self._turn:
                while self._idle:
                    self._idle.pop().end()


_WORKERS = _Workers()


def start_worker() -> None:
    """Start a worker while the caller imports libraries, so that its first file waits less."""
    _WORKERS.put(_WORKERS.take())


def send(channel: socket.socket, message: dict[str, Any], *descriptors: int) -> None:
    """Send a message to the other side, with open files. If that has ended, reading tells."""
    with suppress(ConnectionError):
        socket.send_fds(channel, [json.dumps(message).encode()], descriptors)
