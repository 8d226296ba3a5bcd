"""Indexes by name below the user's state, as a profile names them.

``STATE/indexes/pictures/NAME.json`` names the folder of pictures, and
``STATE/indexes/texts/NAME`` is an index of texts. A missing index raises an error only when it is
searched, so that a profile that names it can run without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from viper.errors import StoreError, UsageError
from viper.models.vision.roles import Matcher, Pixels
from viper.search.findings import SimilarPicture
from viper.search.image_index import ImageIndex
from viper.search.text_index import TextIndex
from viper.storage.files import write_file

DEFAULT = "default"

# Names become files, so they hold no separators and do not begin with a dot.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NamedTexts(TextIndex):
    """Index of texts with a name.

    Args:
        state: the folder of the user's state.

    Raises:
        UsageError: a name that a folder cannot have.
    """

    def __init__(self, state: Path, name: str = DEFAULT) -> None:
        super().__init__(state / "indexes" / "texts" / checked_name(name))
        self.model_id = f"{self.name}@{self.state_id}"


class NamedPictures:
    """Index of pictures with a name: an :class:`~viper.search.findings.ImageSearch`.

    Args:
        state: the folder of the user's state.

    Attributes:
        path: the file that stores the name of the folder.

    Raises:
        UsageError: a name that a file cannot have.
    """

    def __init__(self, state: Path, matcher: Matcher, name: str = DEFAULT) -> None:
        self.name = f"pictures:{checked_name(name)}"
        self.path = state / "indexes" / "pictures" / f"{name}.json"
        self._state, self._matcher, self._key = state, matcher, name
        self._index: ImageIndex | None = None
        folder = self.folder
        index_state = self.index().state_id if folder is not None and folder.is_dir() else ""
        self.model_id = f"{self.name}@{index_state}"

    @property
    def folder(self) -> Path | None:
        """Return the folder of pictures, or None if none was named.

        Raises:
            StoreError: the file with its name is broken.
        """
        return self.folder_of(self.path) if self.path.is_file() else None

    @staticmethod
    def folder_of(path: Path) -> Path:
        """Return the folder that such a file names. Raises the errors of :attr:`folder`."""
        try:
            return Path(json.loads(path.read_text("utf-8"))["folder"])
        except (OSError, ValueError, KeyError, TypeError):
            raise StoreError(f"{path}: broken; delete it and index anew") from None

    def name_folder(self, folder: Path) -> None:
        """Set the folder of pictures from now on.

        Raises:
            StoreError: the file cannot be written.
        """
        write_file(self.path, json.dumps({"folder": str(folder.resolve())}))
        self._index = None

    def index(self) -> ImageIndex:
        """Return the index itself.

        Raises:
            UsageError: no folder was named, or it no longer exists.
        """
        if self._index is None:
            folder = self.folder
            if folder is None:
                raise UsageError(
                    f"no pictures are indexed as {self._key!r}; "
                    "run: viper setup index images FOLDER"
                )
            self._index = ImageIndex(folder, self._matcher, self._state)
        return self._index

    def similar(self, pixels: Pixels, limit: int) -> Sequence[SimilarPicture]:
        """See :meth:`viper.search.findings.ImageSearch.similar`.

        Raises:
            UsageError: see there and :meth:`index`.
        """
        return self.index().similar(pixels, limit)


def checked_name(name: Any) -> str:
    """Return the name if a file may have it.

    Raises:
        UsageError: a file cannot have this name.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{str(name)[:80]!r} is no name of an index; expected letters, digits, dots and dashes"
        )
    return name


def named_indexes(state: Path) -> list[tuple[str, str, str]]:
    """Return kind, name and content in words of every index, sorted by kind and name.

    Raises:
        StoreError: an index is broken.
    """
    indexes = []
    for path in sorted((state / "indexes" / "pictures").glob("*.json")):
        folder = NamedPictures.folder_of(path)
        gone = "" if folder.is_dir() else " (gone)"
        indexes.append(("pictures", path.stem, f"{folder}{gone}"))
    for path in sorted((state / "indexes" / "texts").glob("*")):
        texts = TextIndex(path)
        if texts.is_there:
            indexes.append(("texts", path.name, f"{len(texts):,} passages"))
    return indexes
