"""The answers of a user's own file, one reader a task; see :mod:`viper.data.own`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from viper.data.record import Record


def listed(record: Record, key: str) -> tuple[str, ...]:
    """Texts given as a list, or as one text with semicolons between them.

    Raises:
        DataError: neither, or none in it.
    """
    value = record.values.get(key)
    parts = value.split(";") if isinstance(value, str) else value
    if isinstance(parts, list):
        texts = tuple(part.strip() for part in parts if isinstance(part, str) and part.strip())
        if texts and all(isinstance(part, str) for part in parts):
            return texts
    raise record.wrong(key, "a text, several with semicolons between them, or a list of texts")


def _question(record: Record) -> str | tuple[str, ...]:
    value = record.values.get("answer")
    if isinstance(value, list):
        if value and all(isinstance(text, str) and text.strip() for text in value):
            return tuple(text.strip() for text in value)
        raise record.wrong("answer", "a text, a number, or a list of texts")
    return f"{value:g}" if isinstance(value, float) else record.name("answer")


def _choice(record: Record) -> int:
    options, value = listed(record, "options"), record.values.get("answer")
    if len(options) < 2:
        raise record.wrong("options", "two options or more")
    if isinstance(value, str) and value.strip() in options:
        return options.index(value.strip())
    index = record.digits("answer") if isinstance(value, str) and value.strip().isdecimal() else -1
    if isinstance(value, int) and not isinstance(value, bool):
        index = value
    if not 0 <= index < len(options):
        raise record.wrong(
            "answer", f"one of the options, or an index from 0 to {len(options) - 1}"
        )
    return index


def _tags(record: Record) -> tuple[tuple[str, Any], ...]:
    return tuple((tag.text("label"), tag.corner_box("box")) for tag in record.records("answer"))


def _reference(record: Record) -> str | None:
    return record.file_name("answer") if "answer" in record.values else None


ANSWERS: Mapping[str, Callable[[Record], Any]] = {
    "ground": lambda record: record.corner_box("answer"),
    "question": _question,
    "choice": _choice,
    "statement": lambda record: record.truth("answer"),
    "tag": _tags,
    "edit": _reference,
}
"""Task to the reader of its target."""
