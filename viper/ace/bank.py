"""A bank of in-context examples: JSON lines, one :class:`~viper.schema.Example` each."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from viper.api.library import split_api
from viper.errors import UsageError
from viper.schema import Example, Query, to_json

_FIELDS = {field.name: field for field in dataclasses.fields(Example)}


class Bank:
    """Examples in their order of merit; shows the first that fit task and API.

    Source: Stanić et al. 2024, sec. 2.3: the same best examples for every query.
    """

    def __init__(self, items: Iterable[Example]) -> None:
        self.items = tuple(items)

    def examples(self, query: Query, task: str, api: str, count: int) -> Sequence[Example]:
        """The first ``count`` correct ones of the task and API; never the query's own sample.

        An example fits an API that holds the example's own: ``abstract`` fits
        ``abstract+mine.py``.
        """
        asked = set(split_api(api))
        fitting = [
            item
            for item in self.items
            if item.task == task
            and set(split_api(item.api)) <= asked
            and item.polarity == "correct"
            and (query.sample_id is None or item.sample_id != query.sample_id)
        ]
        return fitting[:count]


def read_bank(path: Path) -> Bank:
    """The bank in a JSON-lines file.

    Raises:
        UsageError: missing file, or a line that is no example; says which.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such bank of examples; make one with: viper ace mine")
    items = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            items.append(_example(path, number, line))
    return Bank(items)


def write_bank(path: Path, items: Iterable[Example]) -> None:
    """Writes the examples; the file is replaced in one step, so it is never half-written."""
    text = "".join(json.dumps(to_json(item), ensure_ascii=False) + "\n" for item in items)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _example(path: Path, number: int, line: str) -> Example:
    try:
        record: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{number}: not JSON ({error.msg}); one example a line") from None
    if not isinstance(record, dict) or set(record) - set(_FIELDS):
        raise UsageError(f"{path}:{number}: not an example; expected the keys {', '.join(_FIELDS)}")
    if "options" in record:
        record["options"] = tuple(str(option) for option in record["options"] or ())
    try:
        return Example(**record)
    except TypeError as error:
        raise UsageError(f"{path}:{number}: incomplete example ({error})") from None
