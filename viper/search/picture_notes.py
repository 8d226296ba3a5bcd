"""What is written about the pictures of a folder: captions, titles, what they show.

Beside pictures may lie a file ``metadata.jsonl``, an object a line, as collections of pictures on
the model hub have it::

    {"file_name": "a/lamp.jpg", "caption": "a red lamp", "title": "Velora lamp",
     "entities": [{"name": "Velora", "description": "a table lamp"}]}

Names are relative to its own folder; ``text`` is another name for ``caption``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from viper.errors import DataError
from viper.search.findings import MAX_NAME, Entity, plain

NOTES = "metadata.jsonl"

MAX_ENTITIES = 20
_MAX_LINE = 1 << 20


def picture_notes(folder: Path) -> Iterator[tuple[str, str]]:
    """Name of a picture, relative to the folder, and its note as JSON; in the order of the files.

    Raises:
        DataError: a line that is no such object.
    """
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        if NOTES in names:
            yield from _of_file(Path(root, NOTES), Path(root).relative_to(folder))


def read_note(text: str | None) -> tuple[str, str, tuple[Entity, ...]]:
    """Caption, title and entities of a note; nothing of what is none."""
    value = json.loads(text) if text else {}
    entities = tuple(Entity(*one) for one in value.get("entities", ()))
    return value.get("caption", ""), value.get("title", ""), entities


def _of_file(path: Path, below: Path) -> Iterator[tuple[str, str]]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE + 1), b""), 1):
            if not line.strip():
                continue
            name, note = _note(line, f"{path}:{number}")
            inside = PurePosixPath(below.as_posix(), name)
            if ".." not in inside.parts and not inside.is_absolute():
                yield inside.as_posix(), json.dumps(note, ensure_ascii=False)


def _note(line: bytes, where: str) -> tuple[str, dict[str, Any]]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: no JSON ({str(error)[:80]}); expected an object a line"
        ) from None
    name = value.get("file_name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name or len(line) > _MAX_LINE:
        raise DataError(f'{where}: no note; expected {{"file_name": "…", "caption": "…"}}')
    listed = value.get("entities")
    entities = [_entity(one) for one in listed] if isinstance(listed, list) else []
    note = {
        "caption": plain(value.get("caption", value.get("text"))),
        "title": plain(value.get("title"), MAX_NAME),
        "entities": [one for one in entities if one[0]][:MAX_ENTITIES],
    }
    return name, {key: one for key, one in note.items() if one}


def _entity(value: Any) -> tuple[str, str]:
    if isinstance(value, dict):
        return plain(value.get("name"), MAX_NAME), plain(value.get("description"))
    return plain(value, MAX_NAME), ""
