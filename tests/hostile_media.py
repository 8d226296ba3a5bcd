"""Twelve small files, one of each format, that cost far more to decode than to send.

``tests/serve/test_hostile_media.py`` sends them to a service over fake models,
``benchmarks/hostile_media.py`` to ``viper serve``, and times it.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def _saved(picture: Image.Image, kind: str, **options: Any) -> bytes:
    content = io.BytesIO()
    picture.save(content, kind, **options)
    return content.getvalue()


def mov(path: Path) -> None:
    """One picture of 8 megapixels shown 10,000 times."""
    import av

    with av.open(str(path), "w", format="mov") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = 3840, 2160, "yuv420p"
        black = av.VideoFrame.from_ndarray(np.zeros((2160, 3840, 3), np.uint8), format="rgb24")
        (packet, *_) = [*stream.encode(black), *stream.encode()]
        for number in range(10_000):
            packet.pts = packet.dts = number * 512
            container.mux(packet)


def mkv(path: Path) -> None:
    """100,000 frames of 2 megapixels."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libvpx-vp9", rate=30)
        stream.width, stream.height, stream.pix_fmt = 1920, 1088, "yuv420p"
        grey = av.VideoFrame.from_ndarray(np.full((1088, 1920, 3), 99, np.uint8), format="rgb24")
        (packet, *_) = [*stream.encode(grey), *stream.encode()]
        for number in range(100_000):
            packet.pts = packet.dts = number * 33
            container.mux(packet)


def tiff(path: Path) -> None:
    """A chain of 60,000 directories."""
    Image.new("RGB", (64, 48)).save(path, "TIFF")
    data = bytearray(path.read_bytes())
    first = struct.unpack("<I", data[4:8])[0]
    count = struct.unpack("<H", data[first : first + 2])[0]
    directory = bytes(data[first : first + 2 + 12 * count])
    at = len(data)
    data[first + 2 + 12 * count : first + 6 + 12 * count] = struct.pack("<I", at)
    for _ in range(60_000):
        at += len(directory) + 4
        data += directory + struct.pack("<I", at)
    path.write_bytes(data)


def deep_png(path: Path) -> None:
    """Sixteen bits a pixel, 100 megapixels of one value."""
    Image.fromarray(np.zeros((10_000, 10_000), np.uint16)).save(path, "PNG", compress_level=9)


def huge_bmp(path: Path) -> None:
    """A header of 9,000 x 9,000 run-length encoded pixels, and nearly nothing after it."""
    palette = bytes(1024)
    begin = struct.pack("<IiiHHIIiiII", 40, 9_000, 9_000, 1, 8, 1, 64, 0, 0, 256, 0)
    content = b"BM" + struct.pack("<IHHI", 1142, 0, 0, 1078) + begin + palette + b"\xff\x01" * 32
    path.write_bytes(content)


def gif(path: Path) -> None:
    """3,000 frames of 9 megapixels."""
    first, second = (Image.new("L", (3_000, 3_000), shade) for shade in (0, 200))
    one = _saved(first, "GIF", save_all=True, append_images=[second], duration=40)
    at = one.index(b"\x21\xf9", one.index(b"\x21\xf9") + 4)  # the second frame
    path.write_bytes(one[:at] + one[at:-1] * 3_000 + b";")


def webp(path: Path) -> None:
    """2,000 frames of 9 megapixels."""
    first, second = Image.new("RGB", (3_000, 3_000)), Image.new("RGB", (3_000, 3_000), "red")
    data = _saved(first, "WEBP", save_all=True, append_images=[second], lossless=True)
    at = data.rindex(b"ANMF")
    data = data[:at] + data[at:] * 2_000
    path.write_bytes(data[:4] + struct.pack("<I", len(data) - 8) + data[8:])


def apng(path: Path) -> None:
    """2,000 frames of 9 megapixels, each with the right checksums."""
    frames = [Image.new("L", (3_000, 3_000), shade) for shade in (0, 200)]
    data = _saved(frames[0], "PNG", save_all=True, append_images=frames[1:], compress_level=9)
    chunks, at = [], 8
    while at < len(data):
        length = struct.unpack(">I", data[at : at + 4])[0]
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += length + 12
    start = max(number for number, (kind, _) in enumerate(chunks) if kind == b"fcTL")
    moving = chunks[start:-1]
    out, sequence = list(chunks[:start]), struct.unpack(">I", moving[0][1][:4])[0]
    out = [(k, struct.pack(">I", 2_001) + c[4:]) if k == b"acTL" else (k, c) for k, c in out]
    for _ in range(2_000):
        for kind, content in moving:
            out.append((kind, struct.pack(">I", sequence) + content[4:]))
            sequence += 1
    with path.open("wb") as file:
        file.write(data[:8])
        for kind, content in (*out, (b"IEND", b"")):
            sum_ = zlib.crc32(kind + content)
            file.write(struct.pack(">I", len(content)) + kind + content + struct.pack(">I", sum_))


def jpeg(path: Path) -> None:
    """A progressive picture of 49 megapixels whose last scan comes 400 times."""
    grey = Image.new("L", (7_000, 7_000), 90)
    data = _saved(grey, "JPEG", progressive=True, quality=90)
    at = data.rindex(b"\xff\xda")
    path.write_bytes(data[:at] + data[at:-2] * 400 + data[-2:])


def avif(path: Path) -> None:
    """81 megapixels of one colour."""
    Image.new("RGB", (9_000, 9_000), "blue").save(path, "AVIF", speed=10)


def heic(path: Path) -> None:
    """25 megapixels of one colour; more take long to write."""
    import pillow_heif

    pillow_heif.from_pillow(Image.new("RGB", (5_000, 5_000), "blue")).save(path, quality=10)


def ppm(path: Path) -> None:
    """Written as text: 30 megapixels of 20 MB."""
    path.write_bytes(b"P2 20000 1500 9\n" + b"1 " * 10_000_000)


HOSTILE: Mapping[str, tuple[str, Callable[[Path], None]]] = {
    "MOV": ("a.mov", mov), "MKV": ("a.mkv", mkv), "TIFF": ("a.tif", tiff),
    "PNG": ("a.png", deep_png), "APNG": ("b.png", apng), "GIF": ("a.gif", gif),
    "WebP": ("a.webp", webp), "JPEG": ("a.jpg", jpeg), "AVIF": ("a.avif", avif),
    "HEIC": ("a.heic", heic), "BMP": ("a.bmp", huge_bmp), "PPM": ("a.ppm", ppm),
}  # fmt: skip
