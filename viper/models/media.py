"""Reading of untrusted pictures and videos, and writing of frames as MP4.

The content of a file decides: :func:`media_from` takes what a caller has, Pillow tries it as a
picture, and what is none goes to FFmpeg as a video, of which evenly spread frames are kept. Every
reader returns RGB arrays in display orientation, or raises :class:`~viper.errors.MediaError` with
one line that says what is wrong.

Models see fewer of the kept frames: ``video_windows`` chooses them for models of video, the
strategies ``end_to_end`` and ``prompts`` for captions and for writers that see, ``domain`` for its
checks.
"""

from __future__ import annotations

import hashlib
import logging
import re
import struct
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viper.errors import MediaError
from viper.models.edited import Edits, Origin
from viper.models.libraries import Image, LazyModule
from viper.models.vision.roles import Pixels
from viper.plugins import need_packages

av: Any = LazyModule("av")

# Six digits, so that a name never is a number that takes long to read.
_IMAGE_ID = re.compile(r"image(?P<image>[0-9]{1,6})|video0#(?P<frame>[0-9]{1,6})")

# Pictures with more pixels are rejected, because decoding one would take over a gigabyte.
MAX_IMAGE_PIXELS = 100_000_000

# Maximum number of frames kept of a video, evenly spread over its length: at 960 x 540 pixels they
# take 100 MB, and video models see fewer.
MAX_FRAMES = 64

# Frames with a longer side are scaled down to this many pixels while reading; models scale them
# down further, and :data:`MAX_FRAMES` full frames would take gigabytes.
MAX_FRAME_SIDE = 960

# Maximum number of frames decoded to select evenly spread ones: ten minutes at 30 frames a second.
# Longer videos are cut there, because decoding takes the time.
MAX_DECODED_FRAMES = 20_000


# Formats that Pillow may detect; its EPS reader, for example, starts another program.
PICTURE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")

# Containers that FFmpeg may detect. Playlists are excluded, because FFmpeg would read the files and
# addresses that they name.
VIDEO_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,flv,ogg,asf,gif,webp_pipe,"
    "h264,hevc,ivf"
)


@dataclass(frozen=True, eq=False)
class Media:
    """Media of a query: one or more pictures, or one video.

    Attributes:
        images: the pictures, ``uint8 [H, W, 3]`` RGB each; empty for a video.
        video: ``uint8 [T, H, W, 3]`` RGB, or None.
        names: file names or labels, for messages and traces.
        frame_indices: for a video, the index in the file of each kept frame.
        edits: edited pictures and outlines from runs of the query.
    """

    images: tuple[Pixels, ...] = ()
    video: Pixels | None = None
    names: tuple[str, ...] = ()
    frame_indices: tuple[int, ...] = ()
    edits: Edits = field(default_factory=Edits, repr=False)
    _hashes: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> str:
        """Return ``image``, ``images`` or ``video``."""
        if self.video is not None:
            return "video"
        return "image" if len(self.images) == 1 else "images"

    @property
    def named_images(self) -> dict[str, Pixels]:
        """Return the pictures by their ids; none for a video."""
        return {f"image{number}": picture for number, picture in enumerate(self.images)}

    def for_run(self) -> Media:
        """Return the same media for one more run, with separate edits."""
        return replace(self, edits=self.edits.copy())

    def pixels(self, image_id: str) -> Pixels:
        """Return the pixels of ``image3``, of frame 7 of the video (``video0#7``) or of an edited
        picture.

        Raises:
            KeyError: there is no such picture or frame here.
        """
        if image_id in self.edits:
            return self.edits.picture(image_id).pixels
        named = _IMAGE_ID.fullmatch(image_id)
        if named is None:
            raise KeyError(image_id)
        source = self.images if named["image"] else self.video
        number = int(named["image"] or named["frame"])
        if source is None or number >= len(source):
            raise KeyError(image_id)
        return source[number]

    def origin(self, image_id: str) -> Origin:
        """Return the original picture of this one, and its top-left corner in the original.

        Raises:
            KeyError: as for :meth:`pixels`.
        """
        if image_id in self.edits:
            return self.edits.picture(image_id).origin
        self.pixels(image_id)
        return Origin(image_id)

    def content_hash(self, media_id: str) -> str:
        """Return a hash of the pixels of an image id, or of the whole video for ``video0``.

        The name of an edited picture is such a hash already.
        """
        if media_id in self.edits:
            return media_id
        content = self._hashes.get(media_id)
        if content is None:
            array = self.video if media_id == "video0" else self.pixels(media_id)
            if array is None:
                raise KeyError(media_id)
            digest = hashlib.blake2b(repr(array.shape).encode(), digest_size=16)
            digest.update(np.ascontiguousarray(array).data)
            content = self._hashes[media_id] = digest.hexdigest()
        return content


def media_from(source: Any) -> Media:
    """Build Media from a path, several paths, bytes, arrays, PIL pictures, or Media itself.

    Args:
        source: a path or a list of paths; the bytes of a file; a ``uint8 [H, W, 3]`` (color) or
            ``[H, W]`` (gray) array, a ``uint8 [T, H, W, 3]`` array (video), a PIL image, or a list
            of pictures.

    Raises:
        MediaError: unreadable, empty, too large, or a video among several media.
    """
    if isinstance(source, Media):
        return source
    items = list(source) if isinstance(source, list | tuple) else [source]
    if not items:
        raise MediaError("no media given; expected one or more pictures, or one video")
    if all(isinstance(item, str | Path) for item in items):
        return load_media([Path(item) for item in items])
    if len(items) == 1 and isinstance(items[0], bytes):
        with tempfile.TemporaryDirectory(prefix="viper-") as folder:
            path = Path(folder) / "bytes"
            path.write_bytes(items[0])
            return load_media([path])
    if len(items) == 1 and isinstance(items[0], np.ndarray) and items[0].ndim == 4:
        frames = _checked(items[0], "array")
        return Media(video=frames, names=("array",), frame_indices=tuple(range(len(frames))))
    images = tuple(map(_image_of, items))
    return Media(images, names=tuple(f"image{i}" for i in range(len(images))))


def load_media(paths: Sequence[Path]) -> Media:
    """Read picture files or one video file; the content decides which it is.

    Raises:
        MediaError: as for :func:`media_from`.
    """
    loaded = [_load_file(path) for path in paths]
    if len(loaded) == 1:
        return loaded[0]
    for item in loaded:
        if item.video is not None:
            raise MediaError(
                f"{item.names[0]} is a video among {len(loaded)} media; "
                "give one video alone, or pictures only"
            )
    return Media(
        images=tuple(image for item in loaded for image in item.images),
        names=tuple(name for item in loaded for name in item.names),
    )


def read_picture(path: Path) -> Pixels:
    """Return the picture in a file, ``uint8 [H, W, 3]`` RGB; videos are not accepted.

    Raises:
        MediaError: missing, unreadable, too large, or no picture.
    """
    if not path.is_file():
        raise MediaError(f"{path}: no such file; check the path")
    image = _read_image(path)
    if image is None:
        raise MediaError(f"{path}: is no picture; expected one such as PNG or JPEG")
    return image


def _load_file(path: Path) -> Media:
    if not path.exists():
        if re.match(r"[a-z][a-z0-9+.-]+:/", str(path)):
            raise MediaError(f"{path}: is an address; download the file and give its path")
        raise MediaError(f"{path}: no such file; check the path")
    if path.is_dir():
        raise MediaError(f"{path}: is a folder; give the files in it")
    try:
        if path.stat().st_size == 0:
            raise MediaError(f"{path}: the file is empty (0 bytes)")
        image = _read_image(path)
    except PermissionError:
        raise MediaError(f"{path}: permission denied; make the file readable") from None
    if image is not None:
        return Media(images=(image,), names=(path.name,))
    frames, indices = _read_video(path)
    return Media(video=frames, names=(path.name,), frame_indices=tuple(indices))


# Beginnings of files that people take for pictures.
_UNREAD_FORMATS = (
    (re.compile(rb"....ftyp(?:heic|heix|heim|heis|hevc|mif1|msf1)", re.DOTALL), "a HEIC picture"),
    (re.compile(rb"%PDF-"), "a PDF document"),
    (re.compile(rb"\s*(?:<\?xml.*)?<(?:svg|!DOCTYPE svg)", re.DOTALL), "an SVG drawing"),
    (re.compile(rb"\s*<(?:!DOCTYPE html|html)", re.IGNORECASE), "a web page"),
)


# Errors that decoders raise about damaged files.
_DECODER_ERRORS = (OSError, RuntimeError, TypeError, ValueError, LookupError, ArithmeticError)


def _read_image(path: Path) -> Pixels | None:
    """Return the picture in a file, or None if the file is not a picture at all."""
    from PIL import UnidentifiedImageError

    _silence_pillow()
    try:
        with Image.open(path, formats=PICTURE_FORMATS) as image:
            width, height = image.size
            if width * height > MAX_IMAGE_PIXELS:
                raise MediaError(_too_large(path, f"{width} x {height} pixels"))
            if getattr(image, "n_frames", 1) > 1 and image.format in ("GIF", "WEBP"):
                return None
            return _rgb(image)
    except UnidentifiedImageError:
        return None
    except Image.DecompressionBombError as error:  # it alone knows the size
        count = re.search(r"[0-9]+", str(error))
        size = f"{int(count[0]):,} pixels" if count else "far more pixels than that"
        raise MediaError(_too_large(path, size)) from None
    except (SyntaxError, struct.error, *_DECODER_ERRORS) as error:
        raise MediaError(
            f"{path}: the picture is damaged or cut short ({error}); save or copy it again"
        ) from None


def _silence_pillow() -> None:
    """Hide Pillow's warnings about large and odd pictures: what matters is a MediaError here.

    For good, because Python cannot do so for a single thread. Log records reach other handlers.
    """
    warnings.filterwarnings("ignore", module=r"PIL\.")
    if not (logger := logging.getLogger("PIL")).handlers:
        logger.addHandler(logging.NullHandler())


def _too_large(path: Path, size: str) -> str:
    limit = MAX_IMAGE_PIXELS // 1_000_000
    return f"{path}: {size}; at most {limit} million are read; scale the picture down first"


def _rgb(image: Any) -> Pixels:
    """Convert any PIL mode to RGB in display orientation: EXIF applied, alpha over white, 16 bit
    scaled.
    """
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
        values = np.asarray(image).astype(np.float64)
        top = 65535.0 if values.max(initial=0) > 255 else 255.0
        grey = np.clip(values / top * 255.0, 0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        canvas = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(canvas, image)
    return np.array(image.convert("RGB"), dtype=np.uint8)


def _read_video(path: Path) -> tuple[Pixels, list[int]]:
    need_packages(("av",), f"the video {path.name}")
    try:
        # A resolved path starts with a slash, so FFmpeg reads no part of its name as a protocol.
        options = {"format_whitelist": VIDEO_FORMATS, "protocol_whitelist": "file"}
        with av.open(str(path.resolve()), options=options, metadata_errors="replace") as container:
            if not container.streams.video:
                raise MediaError(f"{path}: holds no video stream; expected a picture or a video")
            frames, indices = _spread_frames(container)
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
    if not frames:
        raise MediaError(f"{path}: the video has no frames")
    return np.stack(frames), indices


def _spread_frames(container: Any) -> tuple[list[Pixels], list[int]]:
    """Return up to MAX_FRAMES evenly spread frames; the step doubles whenever there are too
    many.
    """
    frames: list[Pixels] = []
    indices: list[int] = []
    step = 1
    try:
        for index, frame in enumerate(container.decode(video=0)):
            if index >= MAX_DECODED_FRAMES:
                break
            if index % step:
                continue
            if len(frames) == MAX_FRAMES:
                frames, indices, step = frames[::2], indices[::2], step * 2
                if index % step:
                    continue
            scale = min(1.0, MAX_FRAME_SIDE / max(frame.width, frame.height, 1))
            size = (max(1, round(frame.width * scale)), max(1, round(frame.height * scale)))
            frames.append(frame.to_ndarray(format="rgb24", width=size[0], height=size[1]))
            indices.append(index)
    except av.error.FFmpegError:
        if not frames:
            raise
    return frames, indices


def _image_of(item: Any) -> Pixels:
    if isinstance(item, np.ndarray):
        if item.ndim == 2:
            item = np.repeat(item[..., None], 3, axis=-1)
        if item.ndim != 3:
            raise MediaError(f"array of shape {item.shape}; expected uint8 [H, W, 3] or [H, W]")
        return _checked(item, "array")
    if hasattr(item, "convert") and hasattr(item, "size"):
        _silence_pillow()
        return _rgb(item)
    raise MediaError(f"{type(item).__name__} is no media; expected a path, an array or a picture")


def _checked(array: np.ndarray[Any, Any], name: str) -> Pixels:
    if array.dtype != np.uint8 or array.shape[-1] != 3 or 0 in array.shape:
        raise MediaError(
            f"{name} of {array.dtype} {array.shape}; expected uint8, last axis 3 (RGB), not empty"
        )
    return array


# Frames a second of written clips: the tabletop world's clips move at this pace.
CLIP_FPS = 8


def write_mp4(path: Path, frames: NDArray[np.uint8], quality: int = 16) -> None:
    """Write ``uint8 [T, H, W, 3]`` RGB frames as H.264 in an MP4 file, :data:`CLIP_FPS` a second.

    Args:
        path: replaced if it exists; appears only when complete.
        frames: even width and height (the format halves the colour planes).
        quality: x264's constant rate factor, 0 best, 51 worst.
    """
    part = path.with_name(path.name + ".part")
    with av.open(str(part), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=CLIP_FPS)
        stream.width, stream.height = frames.shape[2], frames.shape[1]
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        stream.options = {"crf": str(quality), "preset": "veryfast"}
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    part.replace(path)


def read_mp4(path: Path) -> NDArray[np.uint8]:
    """Return all frames of a file written by :func:`write_mp4`, ``uint8 [T, H, W, 3]``."""
    with av.open(str(path)) as container:
        container.streams.video[0].thread_count = 1
        return np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)])
