"""Search for pictures on the web by a text, through any service that answers with JSON.

The results of a service change from day to day. So each picture is stored in a folder under the
checksum of its bytes, and the evidence names address and checksum. Training pictures can be
inspected later.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from viper.errors import MediaError, ModelError, StoreError, UsageError
from viper.models.media import read_picture
from viper.search.picture_index import file_digest
from viper.search.web_service import Fetcher, WebService, at_path
from viper.tuning.training_data import FoundPicture, checked_limit

# Number of addresses to try for each picture, since many addresses of a search are dead or no
# picture.
_TRIED = 2

# Addresses with embedded data can be as long as the picture.
_ADDRESS_KEPT = 500


@dataclass(frozen=True)
class PictureService(WebService):
    """A service that finds pictures.

    Attributes:
        picture: path of the picture's address in an item.
        page: path in an item of the address of the page that shows it; "" if there is none.
        max_picture_bytes: largest size of a picture.
    """

    picture: str = "link"
    page: str = ""
    max_picture_bytes: int = 20 << 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_picture_bytes <= 0 or not self.picture:
            raise UsageError(
                "the picture search needs positive limits and the path of a picture's address"
            )


class WebSearch:
    """A :class:`~viper.tuning.training_data.PictureSearch` on the web that downloads its results.

    Args:
        folder: folder for the pictures. Each is named by its SHA-256.
        sleep: waits between attempts.

    Attributes:
        refused: addresses that the last search rejected, with the reasons.

    Raises:
        MissingExtraError: ``httpx`` is not installed.
    """

    def __init__(
        self, service: PictureService, folder: Path, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.name = f"web:{service.host}"
        self.refused: tuple[tuple[str, str], ...] = ()
        self._service, self._folder = service, folder
        self._fetch = Fetcher(service, sleep)

    def search(self, text: str, limit: int) -> list[FoundPicture]:
        """Return the service's first pictures that can be fetched and read.

        Raises:
            UsageError: the limit is out of range, or the key is not set.
            ModelError: the service does not answer, refuses, or answers with something else.
            StoreError: the pictures cannot be stored.
        """
        checked_limit(limit)
        pictures: dict[str, FoundPicture] = {}
        refused: list[tuple[str, str]] = []
        _, items = self._fetch.found("picture", text, _TRIED * limit)
        for item in items:
            address = at_path(item, self._service.picture)
            if not isinstance(address, str):
                continue
            if len(pictures) == limit:
                break
            page = at_path(item, self._service.page) if self._service.page else None
            page = page[:_ADDRESS_KEPT] if isinstance(page, str) else None
            short = address[:_ADDRESS_KEPT]
            try:
                content = self._download(address)
            except ModelError as error:
                refused.append((short, str(error)))
                continue
            except MediaError:
                refused.append((short, "is no picture that can be read"))
                continue
            origin = {"address": short, "page": page, "sha256": content}
            load = partial(_read_stored, self._folder / content, content)
            name = f"{self.name}:{content[:16]}"
            pictures.setdefault(content, FoundPicture(name, text, origin, load))
        self.refused = tuple(refused)
        return list(pictures.values())

    def close(self) -> None:
        """Close the connections."""
        self._fetch.close()

    def _download(self, address: str) -> str:
        """Fetch, check and store a picture. Return its checksum, which is the file's name."""
        data = self._fetch.get(address, self._service.max_picture_bytes, retry=False)
        content = hashlib.sha256(data).hexdigest()
        path = self._folder / content
        part = self._folder / f".{content}.{os.getpid()}.part"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            read_picture(part)
            part.replace(path)
        except OSError as error:
            raise StoreError(f"{path}: cannot be written ({error.strerror}); free space") from None
        finally:
            with suppress(OSError):
                part.unlink()
        return content


def _read_stored(path: Path, content: str) -> Any:
    """Read a stored picture if its content is unchanged."""
    if file_digest(path) != content:
        raise MediaError(f"{path}: is gone or not what was fetched; search again")
    return read_picture(path)
