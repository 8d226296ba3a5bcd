"""The annotations of LVIS in a SQLite file of the user's state: written once, then asked.

The official file is over a gigabyte of JSON, of which one concept needs a few hundred records. The
index is made under a temporary name and renamed when it is whole; it knows the size and the time
of the file that it was made of, and is made anew when they change.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from viper.data.json_records import Progress, json_records
from viper.data.record import Record, check_name
from viper.data.source import Source
from viper.errors import DataError, StoreError
from viper.tools.media import MAX_IMAGE_PIXELS
from viper.tuning.concept_names import plain

VERSION = 1

_SCHEMA = """
CREATE TABLE categories (id INTEGER PRIMARY KEY, name TEXT NOT NULL, synonyms TEXT NOT NULL,
    synset TEXT, definition TEXT);
CREATE TABLE images (id INTEGER PRIMARY KEY, file TEXT NOT NULL, width INTEGER NOT NULL,
    height INTEGER NOT NULL, absent TEXT NOT NULL, incomplete TEXT NOT NULL);
CREATE TABLE annotations (id INTEGER PRIMARY KEY, image INTEGER NOT NULL,
    category INTEGER NOT NULL, box TEXT NOT NULL, outline BLOB);
CREATE TABLE made_of (path TEXT, size INTEGER, mtime_ns INTEGER, version INTEGER);
"""
_INDEXES = (
    "CREATE INDEX annotations_by_category ON annotations (category, image)",
    "CREATE INDEX annotations_by_image ON annotations (image)",
)

_DANGLING = """
SELECT annotations.id, image, category FROM annotations
LEFT JOIN images ON images.id = image LEFT JOIN categories ON categories.id = category
WHERE images.id IS NULL OR categories.id IS NULL LIMIT 1
"""

_INSERT = {
    "categories": "INSERT INTO categories VALUES (?, ?, ?, ?, ?)",
    "images": "INSERT INTO images VALUES (?, ?, ?, ?, ?, ?)",
    "annotations": "INSERT INTO annotations VALUES (?, ?, ?, ?, ?)",
}


def open_index(source: Source, state: Path, progress: Progress | None = None) -> sqlite3.Connection:
    """The index of an annotation file, to read; made first where there is none that fits.

    Args:
        state: the folder of the user's state; the index lies in its ``lvis``.
        progress: is told bytes read and bytes in all while the index is made.

    Raises:
        DataError: the annotation file is missing, broken, or not in LVIS's layout.
        StoreError: the index cannot be written.
    """
    try:
        there = source.path.stat()
    except OSError:
        raise source.missing() from None
    place = str(source.path.resolve())
    stamp = (place, there.st_size, there.st_mtime_ns, VERSION)
    digest = hashlib.blake2b(place.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    path = state / "lvis" / f"{source.path.stem}-{digest}.db"
    if not _fits(path, stamp):
        _make(path, source, stamp, progress)
    return _opened(path)


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)


def _fits(path: Path, stamp: tuple[Any, ...]) -> bool:
    if not path.is_file():
        return False
    try:
        found = _opened(path)
        try:
            return bool(found.execute("SELECT * FROM made_of").fetchone() == stamp)
        finally:
            found.close()
    except sqlite3.Error:
        return False


def _make(path: Path, source: Source, stamp: tuple[Any, ...], progress: Progress | None) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        made = sqlite3.connect(part, isolation_level=None)
        try:
            made.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)
            made.execute("BEGIN")
            _fill(made, source, progress)
            made.execute("INSERT INTO made_of VALUES (?, ?, ?, ?)", stamp)
            made.execute("COMMIT")
        finally:
            made.close()
        part.replace(path)
    except (OSError, sqlite3.OperationalError) as error:
        raise StoreError(f"{path}: the index cannot be written ({error}); free space") from None
    finally:
        with suppress(OSError):
            part.unlink()


def _fill(made: sqlite3.Connection, source: Source, progress: Progress | None) -> None:
    rows = {"categories": _category, "images": _image, "annotations": _annotation}
    seen = dict.fromkeys(rows, 0)
    for member, index, value in json_records(source, rows.keys(), progress):
        record = Record.of(value, source, f" {member}[{index}]")
        try:
            made.execute(_INSERT[member], rows[member](record))
        except (sqlite3.IntegrityError, OverflowError):
            raise record.wrong("id", "an id of 63 bits that no other record has") from None
        seen[member] += 1
    for member, count in seen.items():
        if not count:
            raise source.wrong("", f"has no {member}", "LVIS's images, annotations and categories")
    for statement in _INDEXES:
        made.execute(statement)
    dangling = made.execute(_DANGLING).fetchone()
    if dangling:
        raise source.wrong(
            f" annotation {dangling[0]}",
            f"is of picture {dangling[1]} and category {dangling[2]}, of which one is not there",
            "ids of the same file",
        )


def _category(record: Record) -> tuple[Any, ...]:
    synonyms = [each for each in record.values.get("synonyms") or () if isinstance(each, str)]
    stated = (record.values.get(key) for key in ("synset", "def"))
    kept = (_written(each) if isinstance(each, str) else None for each in stated)
    if not plain(record.text("name")):
        raise record.wrong("name", "a name with letters")
    return (record.whole("id"), record.text("name"), json.dumps(synonyms), *kept)


def _written(text: str) -> str:
    """A text with marks for half characters, which JSON may hold and no file can."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _image(record: Record) -> tuple[Any, ...]:
    width, height = record.whole("width"), record.whole("height")
    if width <= 0 or height <= 0 or width * height > MAX_IMAGE_PIXELS:
        raise record.wrong("width", f"a size of 1 to {MAX_IMAGE_PIXELS:,} pixels")
    absent, incomplete = (
        json.dumps(_ids(record, key)) for key in ("neg_category_ids", "not_exhaustive_category_ids")
    )
    return (record.whole("id"), _file(record), width, height, absent, incomplete)


def _file(record: Record) -> str:
    """``train2017/000000391895.jpg``: the last two parts of the address; in v0.5 a name."""
    if "coco_url" not in record.values:
        return record.file_name("file_name")
    try:
        parts = PurePosixPath(unquote(urlsplit(record.text("coco_url")).path)).parts
    except ValueError:
        raise record.wrong("coco_url", "the address of a picture") from None
    if len(parts) < 3:
        raise record.wrong("coco_url", "an address that ends as train2017/000000391895.jpg")
    return check_name("/".join(parts[-2:]), record, "coco_url")


def _annotation(record: Record) -> tuple[Any, ...]:
    outline = record.values.get("segmentation")
    if outline is not None and not isinstance(outline, list | dict):
        raise record.wrong("segmentation", "polygons or runs")
    packed = None if not outline else zlib.compress(json.dumps(outline).encode(), 1)
    ids = (record.whole(key) for key in ("id", "image_id", "category_id"))
    return (*ids, json.dumps(record.coco_box("bbox")), packed)


def _ids(record: Record, key: str) -> list[int]:
    values: Iterable[Any] = record.values.get(key) or ()
    if not isinstance(values, list) or not all(type(each) is int for each in values):
        if values:
            raise record.wrong(key, "a list of whole numbers")
        return []
    return values


def unpacked_outline(packed: bytes) -> Any:
    """The outline as the annotation file has it.

    Raises:
        DataError: the index is broken.
    """
    try:
        return json.loads(zlib.decompress(packed))
    except (zlib.error, ValueError) as error:
        raise DataError(f"the index of LVIS is broken ({error}); delete it") from None
