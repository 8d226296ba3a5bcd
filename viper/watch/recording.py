"""Records a stream into a folder of video files, which ``viper watch`` reads as it reads any.

Packets are copied, not decoded, by FFmpeg in a process of its own (:func:`main`), whose memory and
files are bounded: a stream is a stranger's. :class:`Recorder` starts and ends it. A file begins at
a frame that needs no other. It begins with the last seconds of the file before it (its *lead*), so
that every moment of a stream stands in a file with what is around it. It appears under its name,
``NUMBER-UTC-LEAD[-end].mkv``, when it is complete.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from viper.errors import MediaError, UsageError
from viper.models.libraries import LazyModule
from viper.plugins import need_packages
from viper.storage.files import file_errors

av: Any = LazyModule("av")

# Name of the environment variable with "user:password" for a stream.
LOGIN = "VIPER_WATCH_LOGIN"

# What an address may begin with. FFmpeg may follow a playlist to these and no others: one on a
# server must not name files of this machine.
_SCHEMES = ("http", "https", "rtsp", "rtsps", "rtmp", "rtmps")
_PROTOCOLS = "http,https,tls,tcp,udp,rtp,rtsp,rtsps,rtmp,rtmps,crypto,httpproxy"

# Least seconds of a file beside its lead: what is seen is told after one, and each costs a process
# some milliseconds.
SEGMENT_S = 4.0

# Seconds after which a server that sends nothing is given up, and between two tries.
_SILENT_S = 10.0
_WAITS = (1.0, 60.0)

# Bytes of a file: 64 seconds of the best cameras. The next begins at a half; a stream that sends as
# much without a frame that needs no other is given up.
_FILE_BYTES = 256 << 20

# Seconds between two frames: more is a camera that set its clock.
_LONGEST_GAP_S = 10.0

# Seconds in which a process ends its file after the watch is gone.
_CLOSE_S = 2.0

# Bytes of files that wait to be watched: beyond these the stream is dropped.
_WAITING_BYTES = 1 << 30

# Memory of the process beyond what it begins with.
_MEMORY_BYTES = 2 << 30

_UTC = "%Y%m%dT%H%M%S%f"
_NAME = re.compile(
    r"(?P<number>[0-9]{9})-(?P<utc>[0-9T]{21})-(?P<lead>[0-9]{1,4}\.[0-9]{3})(?P<end>-end)?\.mkv"
)

_START = "import sys; sys.path.append(sys.argv[1]); from viper.watch.recording import main; main()"
_HOME = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Recorded:
    """What the name of a file of a recording says.

    Attributes:
        number: files of one recording are counted from 1.
        received: when the first frame after the lead came.
        lead: seconds at its start that are in the file before it too.
        is_end: the stream broke after it, so no file has its end as a lead.
    """

    number: int
    received: datetime
    lead: float
    is_end: bool

    @classmethod
    def read(cls, name: str) -> Recorded | None:
        """Read a name; None if a recording does not name its files so."""
        found = _NAME.fullmatch(name)
        try:
            received = found and datetime.strptime(f"{found['utc']}+0000", _UTC + "%z")
        except ValueError:
            return None
        if found is None or received is None:
            return None
        return cls(int(found["number"]), received, float(found["lead"]), bool(found["end"]))

    def utc(self, time: float) -> str:
        """Return when a time of the file was received, as ISO 8601 in milliseconds."""
        return (self.received + timedelta(seconds=time - self.lead)).isoformat(" ", "milliseconds")


def is_stream(source: str) -> bool:
    """Return whether a source is the address of a stream or a camera of this machine."""
    return "://" in source or source.startswith("/dev/video")


@dataclass(frozen=True)
class _Asked:
    """What the process is asked for, as JSON on its standard input."""

    address: str
    folder: str
    after: int
    lead: float
    segment: float
    once: bool
    silent: float = _SILENT_S
    waiting: int = _WAITING_BYTES


class Recorder:
    """A stream that is being recorded until the end of the block.

    Args:
        folder: gets the files; made if it is not there.
        last: name of the last file that was read; "" for none.
        lead: seconds of a file that the next one repeats.
        segment: least seconds of a file beside its lead.
        once: end with the stream, instead of connecting again.
        say: called, in another thread, with a line about a lost connection.

    Raises:
        UsageError: the address begins with no scheme that is read.
        MissingExtraError: PyAV is not installed.
        StoreError: the folder cannot be made.
    """

    def __init__(
        self, address: str, folder: Path, last: str, *, lead: float, segment: float, once: bool,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        need_packages(("av",), "streams")
        scheme = address.partition("://")[0].lower() if "://" in address else ""
        if scheme and scheme not in _SCHEMES:
            raise UsageError(
                f"{scheme}:// is not read; expected one of {', '.join(_SCHEMES)}, a file, a folder "
                "or /dev/videoN"
            )
        with file_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for part in folder.glob(".*.mkv"):
                part.unlink()
            names = [last, *(path.name for path in folder.iterdir())]
        after = max(found.number if (found := Recorded.read(name)) else 0 for name in names)
        asked = _Asked(address, str(folder.resolve()), after, lead, segment, once)
        self._say, self._failure = say, ""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(_HOME)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the watch, which ends it
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(asked)).encode() + b"\n")
        self._process.stdin.flush()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self._failure = told.get("failure", self._failure)
            if "said" in told:
                self._say(told["said"])

    def has_ended(self) -> bool:
        """Return whether no further file comes."""
        return self._process.poll() is not None

    def check(self) -> None:
        """Raise if the recording ended because of a failure.

        Raises:
            MediaError: the stream could not be read.
        """
        self._listener.join()
        if self._failure or self._process.returncode:
            raise MediaError(self._failure or "the process that records the stream ended; it is a "
                             "defect, or the stream needs too much memory")  # fmt: skip

    def close(self) -> None:
        """End the process, which completes its file. May be called twice."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2 * _CLOSE_S)
        self._process.kill()
        self._process.wait()
        self._listener.join()
        self._process.stdout.close()


class _LostError(Exception):
    """A connection ended, with the reason."""


def main() -> None:
    """Record what standard input asks for; standard output gets a line of JSON for each remark."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = _Asked(**json.loads(sys.stdin.buffer.readline()))
    gone = threading.Event()
    threading.Thread(target=_await_end, args=(gone,), daemon=True).start()
    with suppress(OSError):  # without /proc, as on macOS
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY_BYTES,) * 2)
    av.logging.set_level(None)
    writer, wait, lost = _Writer(asked), _WAITS[0], ""
    while True:
        begun = writer.number
        try:
            is_whole = _copy(asked, writer, gone)
            why = "the stream ended"
        except _LostError as error:
            is_whole, why = False, str(error)
        writer.lose()
        if asked.once or is_whole or gone.is_set():
            if writer.number == asked.after and not gone.is_set():  # nothing ever came
                _tell(failure=f"{_shown(asked.address)}: {why}")
            return
        if writer.number > begun:
            wait, lost = _WAITS[0], ""
        if why != lost:
            _tell(said=f"{_shown(asked.address)}: {why}; trying again until it is back")
        time.sleep(wait)
        wait, lost = min(2 * wait, _WAITS[1]), why


def _await_end(gone: threading.Event) -> None:
    """Wait until the watch is gone, as its end of the pipe is then; end soon after it."""
    os.read(0, 1)
    gone.set()
    time.sleep(_CLOSE_S)
    os._exit(0)


def _tell(**line: str) -> None:
    with suppress(OSError):  # nobody listens any more
        print(json.dumps(line), flush=True)


def _shown(address: str) -> str:
    """Return an address without its password and query, which may hold a key."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "the address"
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}" if parts.scheme else address


def _copy(asked: _Asked, writer: _Writer, gone: threading.Event) -> bool:
    """Write the packets of one connection; return whether it was a recording with an end.

    Raises:
        _LostError: it cannot be opened, or broke.
    """
    address, login = asked.address, os.environ.get(LOGIN)
    # of a live playlist the newest part alone: the others were there at the last connection
    options = {"protocol_whitelist": _PROTOCOLS, "live_start_index": "-1"}
    camera = None
    if "://" not in address:
        camera, options = "v4l2", {"input_format": "mjpeg"}
    elif login and "@" not in urlsplit(address).netloc:
        address = address.replace("://", f"://{login}@", 1)
    if address.startswith("rtsp"):
        options["rtsp_transport"] = "tcp"  # over UDP a busy machine loses packets
    try:
        with av.open(address, format=camera, timeout=asked.silent, options=options) as source:
            if not source.streams.video:
                raise _LostError("has no video")
            # a playlist offers several sizes, each of which is fetched unless it is discarded
            stream = max(source.streams.video, key=lambda each: each.width * each.height)
            for other in source.streams.video:
                if other is not stream:
                    other.discard = "all"
            for packet in source.demux(stream):
                if gone.is_set():
                    return True
                if packet.pts is not None and packet.dts is not None:
                    writer.add(packet, stream)
            return bool(source.duration)
    except av.FFmpegError as error:
        # its text repeats the address
        raise _LostError(error.strerror or type(error).__name__) from None
    except (OSError, ValueError, MemoryError) as error:
        raise _LostError(getattr(error, "strerror", None) or type(error).__name__) from None


class _Writer:
    """Writes packets into one file after another."""

    def __init__(self, asked: _Asked) -> None:
        self.number, self._asked, self._folder = asked.after, asked, Path(asked.folder)
        self._output: Any = None
        self._track: Any = None
        self._stream: Any = None
        self._name = ""
        self._begin = self._zero = 0.0  # where the core, and the file, begin in the stream
        self._bytes = self._since_key = 0
        self._last: float | None = None  # when the last packet is decoded
        self._kept = deque[tuple[float, Any]]()  # those of this file, for the next one's lead
        self._is_behind = False

    def add(self, packet: Any, stream: Any) -> None:
        """Write a packet; begin a file with it if it needs no other and the last is long enough.

        Raises:
            _LostError: its time does not follow the last one's, or too much came since a frame to
                begin at.
        """
        now, decoded = (float(time * packet.time_base) for time in (packet.pts, packet.dts))
        if self._last is not None and not 0 <= decoded - self._last <= _LONGEST_GAP_S:
            raise _LostError("its times jump")
        self._last = decoded
        if packet.is_keyframe:
            self._since_key = 0
            is_full = self._bytes > _FILE_BYTES // 2 or now - self._begin >= self._asked.segment
            if self._output is None or is_full:
                has_room = self._has_room()
                self.finish(is_end=not has_room)
                if has_room:
                    self._start(now, stream)
        if self._output is None:
            return
        self._bytes, self._since_key = self._bytes + packet.size, self._since_key + packet.size
        if self._since_key > _FILE_BYTES // 2:
            raise _LostError(f"sends over {_FILE_BYTES >> 21} MiB without a frame to begin at")
        self._kept.append((now, packet))
        self._write(packet)

    def _has_room(self) -> bool:
        """Return whether the files that wait are few enough; say it once if not."""
        waiting = 0
        for path in self._folder.glob("[0-9]*.mkv"):
            with suppress(FileNotFoundError):  # it was just read
                waiting += path.stat().st_size
        if (is_behind := waiting > self._asked.waiting) and not self._is_behind:
            _tell(said="the program is slower than the stream, which is dropped for now; a longer "
                       "--every helps")  # fmt: skip
        self._is_behind = is_behind
        return not is_behind

    def _start(self, now: float, stream: Any) -> None:
        """Begin a file at a packet of this time, with its lead."""
        lead_from = now
        if self._asked.lead:
            keys = [time for time, packet in self._kept if packet.is_keyframe]
            early = [time for time in keys if time <= now - self._asked.lead]
            lead_from = max(early) if early else min(keys, default=now)
        self.number += 1
        self._begin, self._zero, self._bytes = now, lead_from, 0
        while self._kept and self._kept[0][0] < lead_from:
            self._kept.popleft()
        utc = datetime.now(UTC).strftime(_UTC)
        self._name = f"{self.number:09d}-{utc}-{now - lead_from:.3f}"
        # else it would move pictures, not only decoding
        options = {"avoid_negative_ts": "disabled"}
        part = str(self._folder / f".{self._name}.mkv")
        self._output = av.open(part, "w", format="matroska", options=options)
        self._track, self._stream = self._output.add_stream_from_template(stream), stream
        for _, packet in self._kept:
            self._write(packet)

    def _write(self, packet: Any) -> None:
        """Write a packet with times from the start of the file; others need it as it was."""
        copy = av.Packet(bytes(packet))
        zero = round(self._zero / packet.time_base)
        copy.pts, copy.dts, copy.time_base = packet.pts - zero, packet.dts - zero, packet.time_base
        copy.is_keyframe, copy.stream = packet.is_keyframe, self._track
        copy.duration = packet.duration
        self._output.mux(copy)

    def finish(self, *, is_end: bool) -> None:
        """Give the file its name; forget what a lead needs if the stream broke."""
        if self._output is not None:
            output, self._output = self._output, None
            part = self._folder / f".{self._name}.mkv"
            try:
                output.close()
                part.rename(self._folder / f"{self._name}{'-end' if is_end else ''}.mkv")
            except (av.FFmpegError, OSError) as error:  # a full disk
                part.unlink(missing_ok=True)
                _tell(said=f"some seconds were not recorded: {error.strerror or error}")
        if is_end:
            self._kept.clear()

    def lose(self) -> None:
        """End the file with the connection: what comes then has times of its own."""
        self.finish(is_end=True)
        self._last = None
