"""Pictures in tables or untrusted zip archives. Nothing is unpacked to disk."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from viper.errors import MediaError
from viper.models.media import MAX_IMAGE_PIXELS, PICTURE_FORMATS
from viper.models.vision.roles import Pixels

# Longer members are refused, whatever size their header claims.
MAX_MEMBER_BYTES = 16 * 2**20


class PngArchive:
    """Zip archive of PNGs, opened at the first read. Each process opens its own handle."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: tuple[int, ZipFile] | None = None

    def names(self) -> list[str]:
        """Return the names of the members.

        Raises:
            OSError: missing, or no archive.
        """
        try:
            return self._zip().namelist()
        except (BadZipFile, NotImplementedError, ValueError) as error:
            raise OSError(f"{self.path}: is no zip archive that can be read ({error})") from None

    def read(self, name: str) -> Pixels:
        """Read a member as ``uint8 [H, W, 3]``, RGB.

        Raises:
            MediaError: no such member, too long, damaged, or no PNG.
        """
        where = f"{self.path}: {name}"
        try:
            archive = self._zip()
            if archive.getinfo(name).compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                raise MediaError(f"{where}: packed in a rare way; expected deflated; get it again")
            with archive.open(name) as member:
                data = member.read(MAX_MEMBER_BYTES + 1)
        except KeyError:
            raise MediaError(f"{where}: not in the archive; get it again") from None
        except (OSError, EOFError, RuntimeError, ValueError, BadZipFile, zlib.error) as error:
            raise MediaError(f"{where}: cannot be read ({error}); get it again") from None
        if len(data) > MAX_MEMBER_BYTES:
            raise MediaError(f"{where}: longer than {MAX_MEMBER_BYTES:,} bytes; expected a picture")
        return decoded(data, where, ("PNG",))

    def _zip(self) -> ZipFile:
        # A handle that is shared by a fork would share its position, too.
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = (os.getpid(), ZipFile(self.path))
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_opened": None}


@dataclass(frozen=True)
class PngInArchive:
    """Callable that returns one picture of an archive. It can be pickled."""

    archive: PngArchive
    name: str

    def __call__(self) -> Pixels:
        return self.archive.read(self.name)


def decoded(data: bytes, where: str, formats: Sequence[str] = PICTURE_FORMATS) -> Pixels:
    """Return the picture as ``uint8 [H, W, 3]``, RGB.

    Args:
        where: what messages call it.
        formats: those that Pillow may take it for.

    Raises:
        MediaError: damaged, none of the formats, or too many pixels.
    """
    from PIL import Image

    try:
        with Image.open(BytesIO(data), formats=tuple(formats)) as image:
            if image.width * image.height > MAX_IMAGE_PIXELS:
                raise MediaError(f"{where}: {image.width} x {image.height} pixels are too many")
            return np.array(image.convert("RGB"), dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise MediaError(f"{where}: no picture that can be read ({error}); get it again") from None
