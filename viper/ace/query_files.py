"""Queries in files: one a line, as a person writes them or as generating them left them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from viper.ace.generate import Generated, Request
from viper.errors import StoreError, UsageError
from viper.prompting.query_lines import different, fault, read_line
from viper.schema import Query
from viper.storage.files import write_file

QUERIES, REQUEST = "queries.jsonl", "request.json"

_LONGEST_SHEET = 40_000


def read_sheet(path: Path) -> str:
    """The text of a data sheet.

    Raises:
        UsageError: it cannot be read, is empty, or longer than a few pages.
    """
    text = _text(path).strip()
    if not text:
        raise UsageError(f"{path}: empty; describe the data set in a few sentences")
    if len(text) > _LONGEST_SHEET:
        raise UsageError(
            f"{path}: {len(text)} characters; a data sheet has at most {_LONGEST_SHEET}"
        )
    return text


def read_query_file(path: Path, task: str) -> list[Query]:
    """The queries of a file, each once: a line each, or ``{"query": …, "options": […]}`` a line.

    Raises:
        UsageError: a line that cannot be asked, named by its number; or there is none.
    """
    queries = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        query = read_line(line, task)
        wrong = fault(query)
        if wrong is not None:
            raise UsageError(f"{path}:{number}: {wrong}; one query a line")
        queries.append(query)
    if not queries:
        raise UsageError(f"{path}: no query; one a line")
    return different(queries)


class QueryStore:
    """The generated queries in a folder, kept after each reply, so that none is asked for twice.

    ``queries.jsonl`` is a file as :func:`read_query_file` takes it.
    """

    def __init__(self, folder: Path, request: Request, model_id: str) -> None:
        self._folder, self._task = folder, request.task
        self._asked = {
            "sheet": hashlib.sha256(request.sheet.encode()).hexdigest()[:16],
            "task": request.task,
            "media": request.media,
            "queries": request.count,
            "seed": request.seed,
            "llm": model_id,
        }

    def load(self) -> Generated:
        """What the folder holds; nothing where it is new.

        Raises:
            UsageError: queries for another request; says what differs.
            StoreError: damaged.
        """
        path = self._folder / REQUEST
        if not path.is_file():
            return Generated()
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            before, replies, barren = dict(record["asked"]), record["replies"], record["barren"]
            counts = int(replies), int(barren)
        except (OSError, ValueError, KeyError, TypeError):
            raise StoreError(f"{path}: damaged; choose another --work") from None
        changed = [
            f"{name}: {before.get(name)} in the folder, {value} now"
            for name, value in self._asked.items()
            if before.get(name) != value
        ]
        if changed:
            raise UsageError(
                f"{self._folder}: holds queries that were asked for otherwise; choose another "
                f"--out or --work, or ask for the same:\n  " + "\n  ".join(changed)
            )
        return Generated(tuple(read_query_file(self._folder / QUERIES, self._task)), *counts)

    def save(self, generated: Generated) -> None:
        """Keeps them; while there is no query nothing is kept, and another time asks afresh.

        Raises:
            StoreError: the folder cannot be written.
        """
        if not generated.queries:
            return
        counts = {"replies": generated.replies, "barren": generated.barren}
        write_file(self._folder / QUERIES, _lines(generated.queries))
        write_file(self._folder / REQUEST, json.dumps({"asked": self._asked, **counts}) + "\n")


def _lines(queries: Iterable[Query]) -> str:
    records = (
        {"query": query.text, **({"options": query.options} if query.options else {})}
        for query in queries
    )
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as text ({error})") from None
