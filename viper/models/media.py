"""Media of a query, read from what a caller has, and writing of frames as MP4.

:func:`media_from` takes paths, bytes, arrays and pictures. Files are decoded in another process
(:mod:`viper.models.decoding`). Every reader returns RGB arrays in display orientation, or raises
:class:`~viper.errors.MediaError` with one line that says what is wrong.

Models see fewer of the kept frames: ``video_windows`` chooses them for models of video, the
strategies ``end_to_end`` and ``prompts`` for captions and for writers that see, ``domain`` for its
checks.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.errors import MediaError
from viper.models.decoding import Decoded, decode, limited
from viper.models.edited import Edits, Origin
from viper.models.libraries import LazyModule
from viper.models.media_files import rgb, silence_pillow
from viper.models.vision.roles import Pixels, TextLine
from viper.schema import CLIP_ID
from viper.storage.cache import ComputeCache

av: Any = LazyModule("av")

# Pages of a PDF that are read: more would not fit the pixels of one request.
MAX_PAGES = 20

# Six digits, so that a name never is a number that takes long to read.
_IMAGE_ID = re.compile(r"image(?P<image>[0-9]{1,6})|(?P<video>[^#]+)#(?P<frame>[0-9]{1,6})")

# Clips in memory; each takes up to 100 MB, and is read again when it is needed.
_CLIPS_HELD = 3


class _OwnFile:
    """File that media alone have: it is removed with the last of them, or at the end."""

    def __init__(self, data: bytes) -> None:
        folder = tempfile.mkdtemp(prefix="viper-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / "bytes"
        self.path.write_bytes(data)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # another process has no such file


@dataclass(frozen=True, eq=False)
class Media:
    """Media of a query: one or more pictures, or one video.

    Attributes:
        images: the pictures, ``uint8 [H, W, 3]`` RGB each; empty for a video.
        video: ``uint8 [T, H, W, 3]`` RGB, or None.
        names: file names or labels, for messages and traces.
        times: seconds from the start of the video's file to each kept frame; empty if unknown.
        seconds: length of the video's file; 0 if unknown.
        edits: edited pictures and outlines from runs of the query.
        lines: text that a run read, by picture; see :func:`viper.tools.knowledge_tools.text_lines`.
        paths: files that they were read from.
        notes: what these files hold and was not read, in words.
    """

    images: tuple[Pixels, ...] = ()
    video: Pixels | None = None
    names: tuple[str, ...] = ()
    times: tuple[float, ...] = ()
    seconds: float = 0.0
    edits: Edits = field(default_factory=Edits, repr=False)
    lines: dict[str, list[TextLine]] = field(default_factory=dict, repr=False)
    paths: tuple[Path, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()
    _hashes: dict[str, str] = field(default_factory=dict, repr=False)
    _clips: ComputeCache = field(default_factory=lambda: ComputeCache(_CLIPS_HELD), repr=False)
    _file: _OwnFile | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Return kind, names and sizes in one line, without pixels."""
        sizes = (f"{name} {width} x {height}" for name, (width, height) in self.sizes.items())
        return f"<Media {', '.join(self.names[:3])}: {', '.join(islice(sizes, 3))}>"

    @property
    def kind(self) -> str:
        """Return ``image``, ``images`` or ``video``."""
        if self.video is not None:
            return "video"
        return "image" if len(self.images) == 1 else "images"

    @property
    def source(self) -> Path | None:
        """Return the file of which parts of a video are read, if there is one."""
        path = self._file.path if self._file else next(iter(self.paths), None)
        return path if path is not None and path.is_file() else None

    @property
    def named_images(self) -> dict[str, Pixels]:
        """Return the pictures by their ids; none for a video."""
        return {f"image{number}": picture for number, picture in enumerate(self.images)}

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return (width, height) of each picture by its id, of all frames as ``video0``."""
        pictures = {name: self.edits.picture(name).pixels for name in self.edits.names()}
        pictures |= self.named_images if self.video is None else {"video0": self.video[0]}
        return {name: (each.shape[1], each.shape[0]) for name, each in pictures.items()}

    def for_run(self) -> Media:
        """Return the same media for one more run, with separate edits and lines."""
        return replace(self, edits=self.edits.copy(), lines={})

    def pixels(self, image_id: str) -> Pixels:
        """Return the pixels of ``image3``, of frame 7 of the video (``video0#7``) or of a clip of
        it, or of an edited picture.

        Raises:
            KeyError: there is no such picture or frame here.
            MediaError: a clip cannot be read.
        """
        if image_id in self.edits:
            return self.edits.picture(image_id).pixels
        named = _IMAGE_ID.fullmatch(image_id)
        if named is None:
            raise KeyError(image_id)
        source = self.images if named["image"] else self.frames(named["video"])
        number = int(named["image"] or named["frame"])
        if number >= len(source):
            raise KeyError(image_id)
        return source[number]

    def frames(self, video_id: str) -> Pixels:
        """Return the frames of ``video0`` or of a clip of it, ``uint8 [T, H, W, 3]``.

        Args:
            video_id: ``video0``, or a name of :func:`viper.schema.clip_id`.

        Raises:
            KeyError: there is no such video here.
            MediaError: the clip cannot be read.
        """
        if video_id == "video0" and self.video is not None:
            return self.video
        return self._clip(video_id).pixels

    def frame_times(self, video_id: str) -> tuple[float, ...]:
        """Return the seconds from the start of the video's file to each of :meth:`frames`.

        Raises:
            KeyError, MediaError: as for :meth:`frames`; also if no file tells the times.
        """
        if video_id != "video0":
            return self._clip(video_id).times
        if not self.times:
            raise MediaError("the times of the frames are not known; give the video as a file")
        return self.times

    def end_of(self, video_id: str) -> float:
        """Return the seconds from the start of the video's file to the end of :meth:`frames`."""
        named = CLIP_ID.fullmatch(video_id)
        if named is None:
            return self.seconds
        return min(self.seconds, (int(named[1]) + int(named[2])) / 1e3)

    def _clip(self, name: str) -> Decoded:
        named = CLIP_ID.fullmatch(name)
        if named is None or self.video is None:
            raise KeyError(name)
        source = self.source
        if source is None:
            raise MediaError("parts of a video are read from its file, which is not there")
        start, length, count = map(int, named.group(1, 2, 3))
        times = [(start + length * number / count) / 1e3 for number in range(count)]
        read = partial(decode, source, times=times, keys=named[4] is not None)
        found: Decoded = self._clips.get((name,), read)[0]
        return found

    def origin(self, image_id: str) -> Origin:
        """Return the original picture of this one, and its top-left corner in the original.

        Raises:
            KeyError: as for :meth:`pixels`.
        """
        if image_id in self.edits:
            return self.edits.picture(image_id).origin
        self.pixels(image_id)
        return Origin(image_id)

    def add_edit(self, pixels: Pixels, image_id: str, x: int, y: int, **more: Any) -> str:
        """Store a picture that was made from a part of another one, and return its name.

        Args:
            x, y: the part's top-left corner in the other picture.
            more: further arguments of :meth:`viper.models.edited.Edits.add`.
        """
        base = self.origin(image_id)
        return self.edits.add(pixels, Origin(base.image_id, base.x + x, base.y + y), **more)

    def content_hash(self, media_id: str) -> str:
        """Return a hash of the pixels of an image id, or of all frames of a video's.

        The name of an edited picture is such a hash already.
        """
        if media_id in self.edits:
            return media_id
        content = self._hashes.get(media_id)
        if content is None:
            is_video = media_id == "video0" or CLIP_ID.fullmatch(media_id)
            array = self.frames(media_id) if is_video else self.pixels(media_id)
            digest = hashlib.blake2b(repr(array.shape).encode(), digest_size=16)
            digest.update(np.ascontiguousarray(array).data)
            content = self._hashes[media_id] = digest.hexdigest()
        return content


def media_from(source: Any, page: int | None = None) -> Media:
    """Build Media from paths, bytes, open files, arrays, tensors, PIL pictures, or Media itself.

    Args:
        page: of files with several pages, from 1. None takes the first page of a picture and every
            page of a PDF, each as a picture, up to :data:`MAX_PAGES`.
        source: a path or a list of paths; the bytes of a file, or a file opened in binary mode; a
            ``uint8 [H, W, 3]`` (color) or ``[H, W]`` (gray) array, a ``uint8 [T, H, W, 3]`` array
            (video), a tensor of torch, uint8 or float from 0 to 1, whose channels may come before
            the rows; a PIL image; or a list of pictures.

    Raises:
        MediaError: unreadable, empty, too large, or a video among several media.
    """
    if isinstance(source, Media):
        return source
    items = list(source) if isinstance(source, list | tuple) else [source]
    items = list(map(_loaded, items))
    if not items:
        raise MediaError("no media given; expected one or more pictures, or one video")
    if all(isinstance(item, str | Path) for item in items):
        return load_media([Path(item) for item in items], page)
    if len(items) == 1 and isinstance(items[0], bytes):
        with _file_of(items[0], "bytes") as file:
            media = load_media([file.path])
            return replace(media, paths=(), _file=file if media.kind == "video" else None)
    if len(items) == 1 and isinstance(items[0], np.ndarray) and items[0].ndim == 4:
        frames = _checked(items[0], "array")
        return Media(video=frames, names=("array",))
    images = tuple(map(_image_of, items))
    return Media(images, names=tuple(f"image{i}" for i in range(len(images))))


def load_media(paths: Sequence[Path], page: int | None = None) -> Media:
    """Read picture files or one video file; the content decides which it is.

    The files are decoded in processes of their own, within the limits of one request
    (:mod:`viper.models.decoding`).

    Args:
        page: as for :func:`media_from`.

    Raises:
        MediaError: as for :func:`media_from`.
    """
    with limited():
        loaded = [_load_file(path, page) for path in paths]
    if len(loaded) == 1:
        return replace(loaded[0], paths=tuple(paths))
    for item in loaded:
        if item.video is not None:
            raise MediaError(
                f"{item.names[0]} is a video among {len(loaded)} media; "
                "give one video alone, or pictures only"
            )
    return Media(
        images=tuple(image for item in loaded for image in item.images),
        names=tuple(name for item in loaded for name in item.names),
        paths=tuple(paths),
        notes=tuple(note for item in loaded for note in item.notes),
    )


def read_picture(path: Path) -> Pixels:
    """Return the picture in a file, ``uint8 [H, W, 3]`` RGB; videos are not accepted.

    Raises:
        MediaError: missing, unreadable, too large, or no picture.
    """
    if not path.is_file():
        raise MediaError(f"{path}: no such file; check the path")
    return decode(path, picture=True).pixels


def picture_from(data: bytes, name: str) -> Pixels:
    """Return the picture in the bytes of a file, ``uint8 [H, W, 3]`` RGB.

    Args:
        name: what messages call it.

    Raises:
        MediaError: as for :func:`read_picture`.
    """
    with _file_of(data, name) as file:
        return read_picture(file.path)


@contextmanager
def _file_of(data: bytes, name: str) -> Iterator[_OwnFile]:
    """Write bytes into a file for a worker. Errors in the block call it by the name."""
    file = _OwnFile(data)
    try:
        yield file
    except MediaError as error:
        raise MediaError(str(error).replace(str(file.path), name)) from None


def _load_file(path: Path, page: int | None) -> Media:
    if not path.exists():
        if re.match(r"[a-z][a-z0-9+.-]+:/", str(path)):
            address = str(path).replace(":/", "://", 1)  # a path holds no double slash
            raise MediaError(f"{address}: is an address; download the file and give its path")
        raise MediaError(f"{path}: no such file; check the path")
    if path.is_dir():
        raise MediaError(f"{path}: is a folder; give the files in it")
    try:
        if path.stat().st_size == 0:
            raise MediaError(f"{path}: the file is empty (0 bytes)")
        with path.open("rb"):
            pass
    except PermissionError:
        raise MediaError(f"{path}: permission denied; make the file readable") from None
    decoded = decode(path, page or 1)
    if decoded.pixels.ndim == 3:
        count = 1 if page else min(decoded.pages, MAX_PAGES)
        pages = (decoded, *(decode(path, number) for number in range(2, count + 1)))
        notes = decoded.notes
        if count < decoded.pages and page is None:
            notes = (f"{path.name} has {decoded.pages} pages; the first {count} are read (--page)",)
        return Media(tuple(each.pixels for each in pages), names=(path.name,) * count, notes=notes)
    return Media(
        video=decoded.pixels,
        names=(path.name,),
        times=decoded.times,
        seconds=decoded.seconds,
        notes=decoded.notes,
    )


def _loaded(item: Any) -> Any:
    """Return the bytes of an open file, a tensor of torch as an array, and others as they are."""
    if isinstance(item, io.TextIOBase):
        raise MediaError("a file that is open as text; open it in binary mode, as open(path, 'rb')")
    item = item.read() if hasattr(item, "read") else item
    return _array_of(item) if hasattr(item, "detach") else item


def _array_of(tensor: Any) -> NDArray[Any]:
    """Return a tensor as an array with the channels last, of uint8 if the tensor holds floats."""
    if tensor.is_floating_point():
        if not bool(((tensor >= 0) & (tensor <= 1)).all()):
            raise MediaError(f"tensor of {tensor.dtype}: expected values from 0 to 1")
        tensor = (tensor.float() * 255).round().byte()
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    channels_first = array.ndim > 2 and array.shape[-3] == 3 != array.shape[-1]
    return np.moveaxis(array, -3, -1) if channels_first else array


def _image_of(item: Any) -> Pixels:
    if isinstance(item, bytes):
        return picture_from(item, "bytes")
    if isinstance(item, str | Path):
        return read_picture(Path(item))
    if isinstance(item, np.ndarray):
        if item.ndim == 2:
            item = np.repeat(item[..., None], 3, axis=-1)
        if item.ndim != 3:
            raise MediaError(f"array of shape {item.shape}; expected uint8 [H, W, 3] or [H, W]")
        return _checked(item, "array")
    if hasattr(item, "convert") and hasattr(item, "size"):
        silence_pillow()
        return np.array(rgb(item.copy()))
    raise MediaError(f"{type(item).__name__} is no media; expected a path, an array or a picture")


def _checked(array: np.ndarray[Any, Any], name: str) -> Pixels:
    if array.dtype != np.uint8 or array.shape[-1] != 3 or 0 in array.shape:
        raise MediaError(
            f"{name} of {array.dtype} {array.shape}; expected uint8, last axis 3 (RGB), not empty"
        )
    return array


# Frames a second of written clips: the tabletop world's clips move at this pace.
CLIP_FPS = 8


def write_mp4(
    path: Path, frames: NDArray[np.uint8], quality: int = 16, keys: int | None = None
) -> None:
    """Write ``uint8 [T, H, W, 3]`` RGB frames as H.264 in an MP4 file, :data:`CLIP_FPS` a second.

    Args:
        path: replaced if it exists; appears only when complete.
        frames: even width and height (the format halves the colour planes).
        quality: x264's constant rate factor, 0 best, 51 worst.
        keys: most frames from one key frame to the next; by default x264's 250.
    """
    part = path.with_name(path.name + ".part")
    with av.open(str(part), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=CLIP_FPS)
        stream.width, stream.height = frames.shape[2], frames.shape[1]
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        stream.options = {"crf": str(quality), "preset": "veryfast", "g": str(keys or 250)}
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    part.replace(path)
