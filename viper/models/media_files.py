"""Files of untrusted pictures and videos, as a worker of :mod:`viper.models.decoding` reads them.

The content of a file decides: Pillow tries it as a picture, and what is none goes to FFmpeg as a
video, of which evenly spread frames are kept. :func:`opened` tells the size before anything is
decoded, and its result decodes: RGB arrays in display orientation, or a
:class:`~viper.errors.MediaError` with one line that says what is wrong. :func:`main` is the worker.
"""

from __future__ import annotations

import itertools
import json
import logging
import mmap
import os
import re
import resource
import signal
import socket
import struct
import tempfile
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from viper.errors import MediaError, MissingExtraError
from viper.models.decoding import DECODE_S, MESSAGE_BYTES, send
from viper.models.libraries import Image, LazyModule
from viper.models.vision.roles import Pixels
from viper.plugins import need_packages

av: Any = LazyModule("av")

# Pictures with more pixels are rejected, because decoding one would take over a gigabyte.
MAX_IMAGE_PIXELS = 100_000_000

# Maximum number of frames kept of a video, evenly spread over its length: at 960 x 540 pixels they
# take 100 MB, and video models see fewer.
MAX_FRAMES = 64

# Frames with a longer side are scaled down to this many pixels while reading; models scale them
# down further, and :data:`MAX_FRAMES` full frames would take gigabytes.
MAX_FRAME_SIDE = 960

# Maximum number of frames decoded one after the other: ten minutes at 30 frames a second. Of longer
# videos only frames that need no others are decoded, each sought, because decoding takes time.
MAX_DECODED_FRAMES = 20_000

# Seconds that are decoded rather than passed over by seeking: most files have a frame that needs no
# other every 2 to 10 seconds, and seeking goes back to one.
_SEEK_S = 4.0


# A longer gap between frames is taken for a break in the video's clock, not for a still scene.
_MAX_GAP_S = 10.0

# Formats that Pillow may detect; its EPS reader, for example, starts another program.
PICTURE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "HEIF")

# Those that may move.
_ANIMATED = ("GIF", "WEBP", "PNG", "AVIF")

# Containers that FFmpeg may detect. Playlists are excluded, because FFmpeg would read the files and
# addresses that they name.
VIDEO_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,flv,ogg,asf,gif,webp_pipe,"
    "h264,hevc,ivf"
)

# Pixels of an inch of a printed page, so that small print is read, and of its longer side at most.
PAGE_DPI, MAX_PAGE_SIDE = 200, 3_000

# Memory that a worker may add to what it starts with: the largest picture takes some 1.1 GB.
_WORKER_BYTES = 3 << 29

# Beginnings of files that people take for pictures.
_UNREAD_FORMATS = (
    (
        re.compile(rb"....ftyp(?:heic|heix|heim|heis|hevc|mif1|msf1)", re.DOTALL),
        "a damaged HEIC picture",
    ),
    (re.compile(rb"\s*(?:<\?xml.*)?<(?:svg|!DOCTYPE svg)", re.DOTALL), "an SVG drawing"),
    (re.compile(rb"\s*<(?:!DOCTYPE html|html)", re.IGNORECASE), "a web page"),
)


# A larger picture is converted in strips of so many pixels: several copies of the whole would take
# gigabytes.
_STRIP_PIXELS = 4_000_000

# Errors that decoders raise about damaged files.
_DECODER_ERRORS = (OSError, RuntimeError, TypeError, ValueError, LookupError, ArithmeticError)


@dataclass
class OpenedFile:
    """A file whose size is known and whose pixels are not decoded yet.

    Attributes:
        pixels: most pixels that are decoded and kept.
        decode: returns them, ``uint8 [H, W, 3]`` or ``[T, H, W, 3]``; fills the other attributes.
        times, seconds, notes, pages: as of :class:`viper.models.decoding.Decoded`.
    """

    pixels: int
    decode: Callable[[OpenedFile], Pixels]
    times: list[float] = field(default_factory=list)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    pages: int = 1


@contextmanager
def opened(
    path: Path, page: int, picture: bool, times: Sequence[float] = (), keys: bool = False
) -> Iterator[OpenedFile]:
    """Open a picture or video in a worker, and read no more than its size.

    Args:
        page: of files with several pages, from 1.
        picture: refuse videos.
        times: seconds from the start of a video of which a frame each is read, rising.
        keys: read the key frames before them.

    Raises:
        MediaError: from here and from the block, as for :func:`media_from`.
    """
    import pillow_heif
    from PIL import UnidentifiedImageError

    silence_pillow()
    pillow_heif.register_heif_opener()
    with ExitStack() as stack:
        image = None
        with _picture_errors(path), suppress(UnidentifiedImageError):
            image = stack.enter_context(Image.open(path, formats=PICTURE_FORMATS))
        if image is not None:
            width, height = image.size
            if width * height > MAX_IMAGE_PIXELS:
                raise MediaError(_too_large(path, f"{width} x {height} pixels"))
            with _picture_errors(path):
                moves = image.format in _ANIMATED and bool(getattr(image, "is_animated", False))
                if moves and not picture:
                    yield OpenedFile(_kept(width, height), partial(_decode_animation, image, times))
                else:
                    yield OpenedFile(width * height, partial(_decode_page, image, path, page))
        elif stack.enter_context(path.open("rb")).read(5) == b"%PDF-":
            yield stack.enter_context(_opened_pdf(path, page))
        elif picture:
            raise MediaError(f"{path}: is no picture; expected one such as PNG or JPEG")
        else:
            need_packages(("av",), f"the video {path.name}")
            with _video_errors(path):
                # A path from the root, so FFmpeg reads no part of its name as a protocol.
                options = {"format_whitelist": VIDEO_FORMATS, "protocol_whitelist": "file"}
                container = stack.enter_context(
                    av.open(str(path.resolve()), options=options, metadata_errors="replace")
                )
                if not container.streams.video:
                    raise MediaError(
                        f"{path}: holds no video stream; expected a picture or a video"
                    )
                codec = container.streams.video[0].codec_context
                kept = _kept(codec.width, codec.height)
                yield OpenedFile(kept, partial(_decode_video, container, path, times, keys))


@contextmanager
def _opened_pdf(path: Path, page: int) -> Iterator[OpenedFile]:
    need_packages(("pypdfium2",), f"the PDF {path.name}")
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(path) as document:
            if page > len(document):
                raise MediaError(f"{path}: has no page {page}; give a smaller --page")
            sheet = document[page - 1]
            width, height = sheet.get_size()  # in points
            scale = min(PAGE_DPI / 72, MAX_PAGE_SIDE / max(width, height))
            render = partial(sheet.render, scale=scale, rev_byteorder=True)
            file = OpenedFile(round(width * height * scale**2), lambda _: render().to_numpy())
            file.pages = len(document)
            yield file
    except (pypdfium2.PdfiumError, *_DECODER_ERRORS) as error:
        raise MediaError(
            f"{path}: the PDF is damaged or has a password ({error}); save it again without one"
        ) from None


def _kept(width: int, height: int) -> int:
    """Return the number of pixels of the frames that are kept of a video."""
    scale = min(1.0, MAX_FRAME_SIDE / max(width, height, 1))
    return MAX_FRAMES * round(width * scale) * round(height * scale)


@contextmanager
def _picture_errors(path: Path) -> Iterator[None]:
    from PIL import UnidentifiedImageError

    try:
        yield
    except UnidentifiedImageError:
        raise
    except Image.DecompressionBombError as error:  # it alone knows the size
        count = re.search(r"[0-9]+", str(error))
        size = f"{int(count[0]):,} pixels" if count else "far more pixels than that"
        raise MediaError(_too_large(path, size)) from None
    except (SyntaxError, struct.error, *_DECODER_ERRORS) as error:
        raise MediaError(
            f"{path}: the picture is damaged or cut short ({error}); save or copy it again"
        ) from None


@contextmanager
def _video_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (av.error.FFmpegError, *_DECODER_ERRORS):
        with path.open("rb") as file:
            begin = file.read(512)
        unread = next((name for start, name in _UNREAD_FORMATS if start.match(begin)), None)
        problem = f"{unread}, which is not read; convert it to PNG or JPEG"
        if unread is None:
            problem = (
                "neither a picture nor a video that can be read; "
                "expected a picture such as PNG or JPEG, or a video such as MP4 or WebM"
            )
        raise MediaError(f"{path}: is {problem}") from None


def silence_pillow() -> None:
    """Hide Pillow's warnings about large and odd pictures: what matters is a MediaError here.

    For good, because Python cannot do so for a single thread. Log records reach other handlers.
    """
    warnings.filterwarnings("ignore", module=r"PIL\.")
    if not (logger := logging.getLogger("PIL")).handlers:
        logger.addHandler(logging.NullHandler())


def _too_large(path: Path, size: str) -> str:
    limit = MAX_IMAGE_PIXELS // 1_000_000
    return f"{path}: {size}; at most {limit} million are read; scale the picture down first"


def _decode_page(image: Any, path: Path, page: int, file: OpenedFile) -> Pixels:
    """Return one page of a picture's file."""
    try:
        if page != 1:
            image.seek(page - 1)
        pixels = rgb(image)
        if image.format == "TIFF" and page == 1:
            with suppress(EOFError):
                image.seek(1)
                file.notes.append(f"{path.name} has several pages; the first is read (--page)")
    except EOFError:
        raise MediaError(f"{path}: has no page {page}; give a smaller --page") from None
    image.close()  # its memory is needed for the copy
    return pixels


def rgb(image: Any) -> Pixels:
    """Convert any PIL mode to RGB in display orientation: EXIF applied, alpha over white, 16 bit
    scaled.
    """
    from PIL import ImageOps

    ImageOps.exif_transpose(image, in_place=True)
    top = 0.0
    if image.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
        top = 65535.0 if (image.getextrema()[1] or 0) > 255 else 255.0
    width, height = image.size
    rows = max(1, _STRIP_PIXELS // max(1, width))
    if rows >= height:
        return _strip_rgb(image, top)
    pixels = np.empty((height, width, 3), np.uint8)
    for y in range(0, height, rows):
        pixels[y : y + rows] = _strip_rgb(image.crop((0, y, width, min(height, y + rows))), top)
    return pixels


def _strip_rgb(image: Any, top: float) -> Pixels:
    """Convert some rows of a picture; those of numbers from 0 to ``top``."""
    if top:
        grey = np.clip(np.asarray(image) / top * 255.0, 0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        canvas = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(canvas, image)
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def _decode_animation(image: Any, times: Sequence[float], file: OpenedFile) -> Pixels:
    """Return the kept frames of an animated picture, those shown at ``times`` if some are given."""

    def frames() -> Iterator[tuple[int, float, Callable[[], Pixels]]]:
        with suppress(EOFError):
            for number in itertools.count():
                image.seek(number)
                yield number, file.seconds, frame
                file.seconds += image.info.get("duration", 0) / 1e3

    def frame() -> Pixels:
        shown = image.copy()
        shown.thumbnail((MAX_FRAME_SIDE, MAX_FRAME_SIDE))
        return rgb(shown)

    pixels = _spread(frames(), file)
    if not file.seconds:  # no frame says how long it is shown
        file.times.clear()
    elif times:
        shown = sorted({max(0, bisect_right(file.times, time) - 1) for time in times})
        pixels, file.times[:] = pixels[shown], [file.times[number] for number in shown]
    return pixels


def _decode_video(
    container: Any, path: Path, times: Sequence[float], keys: bool, file: OpenedFile
) -> Pixels:
    """Return the kept frames of a video, turned as a player shows them: those shown at ``times``,
    or the key frames before, else some that are spread over its length.
    """
    stream = container.streams.video[0]
    rate = float(stream.average_rate or 0) or 1.0
    file.seconds = (container.duration or 0) / 1e6  # as the header has it, in microseconds
    if not times and file.seconds * rate > MAX_DECODED_FRAMES:
        keys = True
        times = ((np.arange(MAX_FRAMES) + 0.5) / MAX_FRAMES * file.seconds).tolist()

    def frames() -> Iterator[tuple[int, float, Callable[[], Pixels]]]:
        count, end, position = 0, 0.0, 0.0
        try:
            for frame in container.decode(video=0):
                time = end + 1 / rate if frame.time is None else frame.time
                position += min(max(time - end, 0.0), _MAX_GAP_S) * rate if count else 0
                count, end = count + 1, time
                yield round(position), position / rate, partial(_shown, frame)
            # A soundtrack may be longer; pictures alone end a few frames early at most.
            is_alone = len(container.streams) == 1
            slack = max(3 / rate, file.seconds / 20) if is_alone else max(1.0, file.seconds / 10)
            if end < file.seconds - slack:
                there = f"{end:.1f} of {file.seconds:.1f} s are there"
                file.notes.append(f"{path.name} is cut: {there}")
        except av.error.FFmpegError:
            if not count:
                raise
            file.notes.append(f"{path.name} is damaged; what follows frame {count} is not read")
        file.seconds = max(file.seconds, position / rate)

    if times:
        found = [(time, _shown(frame)) for time, frame in _frames_at(container, times, keys)]
        kept = [(time, pixels) for time, pixels in found if pixels.shape == found[0][1].shape]
        file.times.extend(time for time, _ in kept)
        pixels = _stacked([pixels for _, pixels in kept])
    else:
        pixels = _spread(frames(), file)
    if not len(pixels):
        raise MediaError(f"{path}: the video has no frames")
    return pixels


def _frames_at(container: Any, times: Sequence[float], keys: bool) -> Iterator[tuple[float, Any]]:
    """Yield the frames that a player shows at rising times, each once, with their own times.

    What is farther than ``_SEEK_S`` is sought. Damaged parts yield nothing.

    Args:
        keys: take the key frame before each time.
    """
    stream = container.streams.video[0]
    if keys:
        stream.codec_context.skip_frame = "NONKEY"
    begin = float((stream.start_time or 0) * stream.time_base)
    decoded: Iterator[Any] = iter(())
    last: Any = None  # newest frame that is not after the time
    following: Any = None  # the frame after it
    given = None  # pts of the frame that was yielded last

    def second(frame: Any) -> float:
        return float(frame.time or 0.0) - begin

    for time in times:
        reached = second(following) if following is not None else None
        if reached is None or time > reached + _SEEK_S:
            last, following, back = None, None, 0.0
            with suppress(av.error.FFmpegError):
                # Transport streams are sought to any frame, and read from the next one that needs
                # no other: that may be too late.
                while back - time <= _SEEK_S and (following is None or second(following) > time):
                    start = max(0.0, max(time - back, -1.0) + begin)
                    container.seek(round(start / stream.time_base), stream=stream, backward=True)
                    decoded = container.decode(video=0)
                    following, back = next(decoded, None), 2 * back or _SEEK_S
        with suppress(av.error.FFmpegError):
            while following is None or (second(following) <= time and not keys):
                last = following or last
                following = next(decoded, None)
                if following is None:
                    break
        frame = last or following
        if frame is not None and frame.pts != given:
            given = frame.pts
            yield second(frame), frame


def _shown(frame: Any) -> Pixels:
    """Return the pixels of a frame as a player turns it, scaled down to what is kept."""
    scale = min(1.0, MAX_FRAME_SIDE / max(frame.width, frame.height, 1))
    size = (max(1, round(frame.width * scale)), max(1, round(frame.height * scale)))
    pixels = frame.to_ndarray(format="rgb24", width=size[0], height=size[1])
    return np.rot90(pixels, round(frame.rotation / 90) % 4)


def _spread(frames: Iterator[tuple[int, float, Callable[[], Pixels]]], file: OpenedFile) -> Pixels:
    """Return up to MAX_FRAMES frames at even distances in time, and note their times.

    The distance doubles whenever there are too many. Frames of another size than the first are left
    out.

    Args:
        frames: each with its time, counted in frames of average length and in seconds.
    """
    kept: list[tuple[int, float, Pixels]] = []
    step = 1
    for number, (place, time, pixels_of) in enumerate(frames):
        if number >= MAX_DECODED_FRAMES:
            file.notes.append(f"only the first {MAX_DECODED_FRAMES:,} frames are read")
            break
        if step > 1 and place // step <= kept[-1][0] // step:
            continue
        pixels = pixels_of()
        if not kept or pixels.shape == kept[0][2].shape:
            kept.append((place, time, pixels))
        while len(kept) > MAX_FRAMES:
            step *= 2
            slots = [place // step for place, *_ in kept]
            kept = [each for number, each in enumerate(kept)
                    if not number or slots[number] > slots[number - 1]]  # fmt: skip
    file.times.extend(time for _, time, _ in kept)
    return _stacked([pixels for *_, pixels in kept])


def _stacked(frames: Sequence[Pixels]) -> Pixels:
    return np.stack(frames) if frames else np.empty((0, 0, 0, 3), np.uint8)


def main(descriptor: int) -> None:
    """Decode what the parent asks for until it ends: the size, a word to go on, the pixels."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which kills
    channel = socket.socket(fileno=descriptor)
    with suppress(OSError):  # without /proc, as on macOS, the time alone is bounded
        size = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
        resource.setrlimit(resource.RLIMIT_AS, (size + _WORKER_BYTES,) * 2)
    while data := channel.recv(MESSAGE_BYTES):
        signal.alarm(int(2 * DECODE_S))  # ends this process if the parent is gone
        try:
            _serve(channel, json.loads(data))
        except MissingExtraError as error:
            send(channel, {"missing": error.package})
        except MediaError as error:
            send(channel, {"error": str(error)})
        except MemoryError:
            return
        signal.alarm(0)


def _serve(channel: socket.socket, asked: dict[str, Any]) -> None:
    os.chdir(asked.pop("cwd"))
    path = Path(asked.pop("path"))
    with opened(path, **asked) as file:
        send(channel, {"pixels": file.pixels})
        if not channel.recv(MESSAGE_BYTES):
            return
        pixels = file.decode(file)
        with _shared_memory() as shared:
            shared.write(np.ascontiguousarray(pixels).data)  # a mapping would cost a fault a page
            reply = {"shape": pixels.shape, "times": file.times, "seconds": file.seconds,
                     "notes": file.notes, "pages": file.pages}  # fmt: skip
            send(channel, reply, shared.fileno())


def _shared_memory() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("pixels"), "wb", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
