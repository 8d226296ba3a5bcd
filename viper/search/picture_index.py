"""An index of the pictures in a folder: their embeddings by one matcher, kept up to date.

One SQLite file for a folder and a model holds names and vectors together, so that a kill cannot
separate them. Equal contents are embedded once. A file with unchanged size and time is not read
again.

A file ``metadata.jsonl`` beside the pictures may describe them, with one object per line, as in
collections on the model hub. It is read again at every update::

    {"file_name": "a/lamp.jpg", "caption": "a red lamp", "title": "Velora lamp",
     "entities": [{"name": "Velora", "description": "a table lamp"}]}

Names are relative to its own folder; ``text`` is another name for ``caption``.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from viper.errors import DataError, MediaError, StoreError, UsageError
from viper.models.media import read_picture
from viper.models.vision.roles import Floats, Matcher, Pixels
from viper.search.findings import MAX_NAME, Entity, json_line, plain
from viper.storage.files import files_below
from viper.storage.sqlite import Format, database_errors, open_to_write

# Most files of a folder that may be indexed: vectors of a million take some gigabytes. A larger
# folder is more likely a mistake, such as a home folder.
MAX_PICTURES = 1_000_000

# Larger files are skipped; they are no photographs, and reading them takes the time of hundreds.
MAX_FILE_BYTES = 100 << 20

NOTES = "metadata.jsonl"

# Entities of one picture that are kept, more than a caption names, and bytes of a line with notes,
# so that a file of another kind does not fill the memory.
MAX_ENTITIES = 20
_MAX_LINE = 1 << 20

# Files in a transaction, so that a kill loses little; and bytes of pictures that wait together for
# the matcher, because a few photographs fill the memory.
_BATCH = 32
_PENDING_BYTES = 64 << 20

# NORMAL: after a power cut, the last files are indexed again, which costs less than a flush for
# each.
_INDEX = Format(
    tables=(
        "CREATE TABLE files (name TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, "
        "content TEXT NOT NULL)",
        "CREATE TABLE contents (number INTEGER PRIMARY KEY AUTOINCREMENT, "
        "content TEXT NOT NULL UNIQUE, vector BLOB, thumbnail BLOB, refused TEXT)",
        "CREATE INDEX by_content ON files (content)",
        "CREATE TABLE notes (name TEXT PRIMARY KEY, note TEXT NOT NULL)",
    ),
    version=2,
    synchronous="NORMAL",
    repair="delete it to index anew",
    elsewhere="delete it to index anew",
)

# Called with the processed files and all files.
Progress = Callable[[int, int], None]


class IndexedPicture(NamedTuple):
    """Contents of an index: sorted names, checksums, unit vectors float32 [N, D]."""

    names: tuple[str, ...]
    contents: tuple[str, ...]
    vectors: Floats


class RejectedFile(NamedTuple):
    """File that is not a picture or cannot be read, with the reason."""

    name: str
    why: str


class PictureIndex:
    """Index of one folder by one matcher.

    Args:
        folder: folder with pictures at any depth. Hidden files, links to files outside and files
            that are not pictures are skipped.
        state: the folder of the user's state; the index is in its folder ``pictures``.

    Attributes:
        path: path of the SQLite file.

    Raises:
        UsageError: there is no such folder.
    """

    def __init__(self, folder: Path, matcher: Matcher, state: Path) -> None:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder; expected one with pictures")
        self.folder = folder.resolve()
        self._matcher = matcher
        key = f"{self.folder}\0{matcher.model_id}".encode("utf-8", "surrogateescape")
        self.path = state / "pictures" / f"{hashlib.blake2b(key, digest_size=8).hexdigest()}.db"

    def update(self, progress: Progress | None = None) -> tuple[RejectedFile, ...]:
        """Bring the index up to date with the folder. Return the rejected files.

        The index is stored after every :data:`_BATCH` files, so an interrupted update resumes.

        Raises:
            UsageError: the folder holds more than :data:`MAX_PICTURES` files.
            StoreError: the index cannot be written.
        """
        files: dict[str, tuple[int, int]] = {}
        count = 0
        for name, status in files_below(self.folder):
            if status is None or PurePosixPath(name).name == NOTES:
                continue
            count += 1
            if count > MAX_PICTURES:
                limit = f"holds more than {MAX_PICTURES:,} files"
                raise UsageError(f"{self.folder}: {limit}; name a folder in it")
            if 0 < status.st_size <= MAX_FILE_BYTES:
                files[name] = (status.st_size, status.st_mtime_ns)
        notes = list(picture_notes(self.folder))
        with self.opened() as index:
            indexed = {row[0]: row[1:] for row in index.execute("SELECT * FROM files")}
            gone = [(name,) for name in indexed if name not in files]
            with index:
                index.executemany("DELETE FROM files WHERE name = ?", gone)
            new = [name for name, stamp in files.items() if indexed.get(name, ())[:2] != stamp]
            for first in range(0, len(new), _BATCH):
                with index:
                    self._add(index, {name: files[name] for name in new[first : first + _BATCH]})
                if progress:
                    progress(min(first + _BATCH, len(new)), len(new))
            with index:
                index.execute(
                    "DELETE FROM contents WHERE content NOT IN (SELECT content FROM files)"
                )
                index.execute("DELETE FROM notes")
                index.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?)", notes)
            query = "SELECT name, refused FROM files JOIN contents USING (content) "
            rows = index.execute(query + "WHERE refused IS NOT NULL ORDER BY name")
            return tuple(RejectedFile(*row) for row in rows)

    def read(self) -> IndexedPicture:
        """Return all indexed pictures, sorted by name.

        Raises:
            StoreError: the index is broken.
        """
        with self.opened() as index:
            query = "SELECT name, content, vector FROM files JOIN contents USING (content) "
            rows = index.execute(query + "WHERE vector IS NOT NULL ORDER BY name").fetchall()
        if not rows:
            return IndexedPicture((), (), np.zeros((0, 0), np.float32))
        names, contents, vectors = zip(*rows, strict=True)
        if len(set(map(len, vectors))) > 1 or len(vectors[0]) % 4:
            raise StoreError(f"{self.path}: vectors of several lengths; delete it to index anew")
        matrix = np.frombuffer(b"".join(vectors), "<f4").reshape(len(rows), -1)
        return IndexedPicture(names, contents, matrix)

    def numbered(self, index: sqlite3.Connection) -> Iterator[tuple[int, bytes]]:
        """Yield number and vector of each content with a vector. Numbers are never used twice."""
        yield from index.execute("SELECT number, vector FROM contents WHERE vector IS NOT NULL")

    def _add(self, index: sqlite3.Connection, files: dict[str, tuple[int, int]]) -> None:
        """Add some files to the index within the caller's transaction."""
        digests = {name: digest for name in files if (digest := file_digest(self.folder / name))}
        unknown: dict[str, str] = {}
        for name, digest in digests.items():
            query = "SELECT 1 FROM contents WHERE content = ?"
            if index.execute(query, (digest,)).fetchone() is None:
                unknown.setdefault(digest, name)
        pending: dict[str, Pixels] = {}
        for digest, name in unknown.items():
            try:
                pending[digest] = read_picture(self.folder / name)
            except MediaError as error:
                row = (digest, str(error))
                index.execute("INSERT INTO contents (content, refused) VALUES (?, ?)", row)
            if sum(pixels.nbytes for pixels in pending.values()) > _PENDING_BYTES:
                self._embed(index, pending)
                pending = {}
        self._embed(index, pending)
        rows = [(name, *files[name], digest) for name, digest in digests.items()]
        index.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", rows)

    def _embed(self, index: sqlite3.Connection, pictures: dict[str, Pixels]) -> None:
        vectors = self._matcher.encode_images(list(pictures.values())) if pictures else ()
        for digest, vector in zip(pictures, vectors, strict=True):
            packed, small = np.asarray(vector, "<f4").tobytes(), thumbnail(pictures[digest])
            query = "INSERT INTO contents (content, vector, thumbnail) VALUES (?, ?, ?)"
            index.execute(query, (digest, packed, small.tobytes()))

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one operation. SQLite's errors become a StoreError."""
        with database_errors(self.path, _INDEX), closing(open_to_write(self.path, _INDEX)) as index:
            index.isolation_level = "DEFERRED"  # `with index` is a transaction then
            yield index


# Side in pixels of the stored thumbnail, which identifies equal pictures: small enough to forget
# their encoding. Stored indexes hold thumbnails of this size.
THUMBNAIL = 16


def thumbnail(pixels: Pixels) -> Pixels:
    """Return the picture shrunk to uint8 [THUMBNAIL, THUMBNAIL, 3], whatever its shape."""
    from PIL import Image

    small = Image.fromarray(pixels).resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX)
    return np.asarray(small)


def file_digest(path: Path) -> str | None:
    """Return the SHA-256 of a file's content in hexadecimal, or None if it is unreadable."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def picture_notes(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name (relative to the folder) and note (JSON) of each picture, in the files' order.

    Raises:
        DataError: a line is not a valid note.
    """
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        if NOTES not in names:
            continue
        path, below = Path(root, NOTES), Path(root).relative_to(folder)
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE + 1), b""), 1):
                if not line.strip():
                    continue
                name, note = _note(line, f"{path}:{number}")
                inside = PurePosixPath(below.as_posix(), name)
                if ".." not in inside.parts and not inside.is_absolute():
                    yield inside.as_posix(), json.dumps(note, ensure_ascii=False)


def read_note(text: str | None) -> tuple[str, str, tuple[Entity, ...]]:
    """Return caption, title and entities of a note; all empty for an invalid note."""
    value = json.loads(text) if text else {}
    entities = tuple(Entity(*fields) for fields in value.get("entities", ()))
    return value.get("caption", ""), value.get("title", ""), entities


def _note(line: bytes, where: str) -> tuple[str, dict[str, Any]]:
    value = json_line(line, where)
    name = value.get("file_name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name or len(line) > _MAX_LINE:
        raise DataError(f'{where}: no note; expected {{"file_name": "…", "caption": "…"}}')
    entities = []
    listed = value.get("entities")
    for entity in listed if isinstance(listed, list) else ():
        entry = entity if isinstance(entity, dict) else {"name": entity}
        entities.append((plain(entry.get("name"), MAX_NAME), plain(entry.get("description"))))
    note = {
        "caption": plain(value.get("caption", value.get("text"))),
        "title": plain(value.get("title"), MAX_NAME),
        "entities": [entity for entity in entities if entity[0]][:MAX_ENTITIES],
    }
    return name, {key: entry for key, entry in note.items() if entry}
