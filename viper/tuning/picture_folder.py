"""Search for pictures of a local folder by a text: by file names, else by the matcher.

The matcher cannot find a concept that it does not know, and concepts to learn are of that kind. So
a folder is searched by words, like the web. If names contain *pyramid*, as ``pyramid/3.jpg`` and
``old-pyramids.png`` do, only those pictures are returned.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from viper.errors import MediaError
from viper.models.media import read_picture
from viper.models.vision.roles import Matcher, Pixels
from viper.search import picture_index
from viper.tuning.training_data import FoundPicture, checked_limit, spellings

_WORD = re.compile(r"[^\W\d_]+")


class FolderSearch:
    """A :class:`~viper.tuning.training_data.PictureSearch` over the pictures of a folder.

    The search is exact and compares all vectors; 100,000 vectors of 512 numbers take 200 MB.

    Args:
        folder: folder with pictures at any depth.
        state: the folder of the user's state, which holds the index.
        least: least cosine of text and picture in a search by similarity.
        progress: called with the processed files and all files while the index is updated.
        leave_out: names of pictures, without their folders, that are never returned.

    Attributes:
        refused: files that are not pictures or cannot be read.

    Raises:
        UsageError: there is no such folder, or it holds too many files.
        StoreError: the index cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        matcher: Matcher,
        state: Path,
        *,
        least: float = -1.0,
        progress: picture_index.Progress | None = None,
        leave_out: Collection[str] = (),
    ) -> None:
        index = picture_index.PictureIndex(folder, matcher, state)
        self.name = f"folder:{index.folder.name}"
        self.refused: tuple[picture_index.RejectedFile, ...] = index.update(progress)
        self._folder, self._matcher, self._least = index.folder, matcher, least
        self._indexed: picture_index.IndexedPicture = index.read()
        # the lower-case words of each file's name and of its folders
        stems = (name.rpartition(".")[0] or name for name in self._indexed.names)
        self._words = [_WORD.findall(stem.lower()) for stem in stems]
        files = (name.rpartition("/")[2] for name in self._indexed.names)
        self._offered = np.array([file not in leave_out for file in files], bool)

    def __len__(self) -> int:
        return len(self._indexed.names)

    def search(self, text: str, limit: int) -> list[FoundPicture]:
        """Return pictures whose names contain the text's words, most similar first.

        If no name does, search all pictures. Files with the same content are returned once.

        Raises:
            UsageError: the limit is out of range.
        """
        checked_limit(limit)
        if not self._indexed.names:
            return []
        likeness = self._indexed.vectors @ self._matcher.encode_texts([text])[0]
        named = np.array([_holds(words, text) for words in self._words]) & self._offered
        by_name = bool(named.any())
        matches = named if by_name else (likeness >= self._least) & self._offered
        pictures: dict[str, FoundPicture] = {}
        for place in np.argsort(-likeness, kind="stable").tolist():
            name, content = self._indexed.names[place], self._indexed.contents[place]
            if matches[place] and content not in pictures:
                by = "name" if by_name else "similarity"
                alike = round(float(likeness[place]), 4)
                origin = {"file": name, "sha256": content, "by": by, "similarity": alike}
                load = partial(_read_unchanged, self._folder / name, content)
                picture_id = f"{self.name}:{content[:16]}"
                pictures[content] = FoundPicture(picture_id, text, origin, load)
            if len(pictures) == limit:
                break
        return list(pictures.values())


def _holds(words: Sequence[str], text: str) -> bool:
    """Return whether the words contain those of the text as a sequence, ignoring plurals."""
    sequence = [_spellings(word) for word in _WORD.findall(text.lower())]
    return bool(sequence) and any(
        all(want & _spellings(word) for want, word in zip(sequence, words[start:], strict=False))
        for start in range(len(words) - len(sequence) + 1)
    )


@lru_cache(1 << 16)
def _spellings(word: str) -> frozenset[str]:
    return frozenset(spellings(word))


def _read_unchanged(path: Path, content: str) -> Pixels:
    """Read the picture of a file if the file is unchanged since it was indexed."""
    if picture_index.file_digest(path) != content:
        raise MediaError(f"{path}: has changed since it was indexed; search again")
    return read_picture(path)
