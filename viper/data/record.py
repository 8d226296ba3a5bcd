"""Typed fields of one record of a file; a field that is off becomes one line about the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from string import ascii_uppercase
from typing import Any

from viper.data.source import SourceFile, brief
from viper.errors import DataError
from viper.schema import PixelBox

MAX_COORDINATE = 1e6


@dataclass(frozen=True)
class Record:
    """One record of a file.

    Attributes:
        values: its fields.
        source: the file.
        at: place in the file, as ``:3`` or `` question '20'``; messages begin with it.
    """

    values: Mapping[Any, Any]
    source: SourceFile
    at: str

    @classmethod
    def of(cls, value: Any, source: SourceFile, at: str) -> Record:
        """Return a value of the file as a record.

        Raises:
            DataError: it is not an object.
        """
        if not isinstance(value, Mapping):
            raise source.wrong(at, f"is {brief(value)}", "an object")
        return cls(value, source, at)

    def wrong(self, key: str, expected: str) -> DataError:
        """Return the error for a field."""
        if key not in self.values:
            return self.source.wrong(self.at, f"has no {key!r}", expected)
        return self.source.wrong(self.at, f"{key!r} is {brief(self.values[key])}", expected)

    def text(self, key: str) -> str:
        """Return a text that is not blank, without surrounding white space."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip() or not _is_unicode(value):
            raise self.wrong(key, "a text")
        return value.strip()

    def whole(self, key: str) -> int:
        """Return a whole number. A text of digits is not accepted."""
        value = self.values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value.bit_length() > 64:
            raise self.wrong(key, "a whole number")
        return value

    def digits(self, key: str) -> int:
        """Return a whole number from 0 in a table of texts."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip().isdecimal() or len(value) > 18:
            raise self.wrong(key, "a whole number")
        return int(value)

    def letter(self, key: str, options: int) -> int:
        """Return the index, from 0, of the option that a letter names: ``B`` or ``(B)``."""
        letters = list(ascii_uppercase[:options])
        value = self.text(key).strip("()")
        if value not in letters:
            raise self.wrong(key, f"the letter of one of {options} options, as 'A' or '(A)'")
        return letters.index(value)

    def name(self, key: str) -> str:
        """Return a text or whole number as text: an id."""
        value = self.values.get(key)
        if isinstance(value, str):
            return self.text(key)
        if not isinstance(value, int) or isinstance(value, bool) or value.bit_length() > 64:
            raise self.wrong(key, "a text or a whole number")
        return str(value)

    def items(self, key: str) -> list[Any]:
        """Return a list."""
        value = self.values.get(key)
        if not isinstance(value, list | tuple):
            raise self.wrong(key, "a list")
        return list(value)

    def records(self, key: str) -> list[Record]:
        """Return a list of objects."""
        return [
            Record.of(value, self.source, f"{self.at} {key}[{index}]")
            for index, value in enumerate(self.items(key))
        ]

    def record(self, key: str) -> Record:
        """Return an object."""
        if not isinstance(self.values.get(key), Mapping):
            raise self.wrong(key, "an object")
        return Record.of(self.values[key], self.source, f"{self.at} {key}")

    def truth(self, key: str) -> bool:
        """Return ``true`` or ``false``, from a truth value or a text in any case."""
        word = str(self.values.get(key)).strip().lower()
        if word not in ("true", "false"):
            raise self.wrong(key, "true or false")
        return word == "true"

    def coco_box(self, key: str) -> PixelBox:
        """Return ``[x, y, width, height]`` as ``(x0, y0, x1, y1)`` in pixels."""
        expected = "[x, y, width, height] in pixels, not empty"
        x, y, width, height = self._four(key, expected)
        if width <= 0 or height <= 0:
            raise self.wrong(key, expected)
        return (x, y, x + width, y + height)

    def corner_box(self, key: str) -> PixelBox:
        """Return ``[x0, y0, x1, y1]`` in pixels from the top-left corner."""
        expected = "[x0, y0, x1, y1] in pixels from the top-left corner, x0 < x1, y0 < y1"
        x0, y0, x1, y1 = self._four(key, expected)
        if x1 <= x0 or y1 <= y0:
            raise self.wrong(key, expected)
        return (x0, y0, x1, y1)

    def file_name(self, key: str) -> str:
        """Return the name of a file under the set's folder; see :func:`check_name`."""
        return check_name(self.text(key), self, key)

    def _four(self, key: str, expected: str) -> PixelBox:
        value = self.values.get(key)
        numbers = value if isinstance(value, list | tuple) else ()
        if len(numbers) != 4 or not all(_is_coordinate(number) for number in numbers):
            raise self.wrong(key, expected)
        a, b, c, d = (float(number) for number in numbers)
        return (a, b, c, d)


def check_name(name: str, record: Record, key: str) -> str:
    """Return the name if, as a path of any system, it is relative and stays below the folder.

    Raises:
        DataError: an absolute name, one with ``..``, a drive or a null character.
    """
    for path in (PurePosixPath(name), PureWindowsPath(name)):
        if path.anchor or ".." in path.parts or "\0" in name or len(name) > 1024:
            raise record.source.wrong(
                record.at,
                f"{key!r} names {brief(name)}",
                "a relative name without '..', of a file under the set's folder",
            )
    return name


def _is_coordinate(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= MAX_COORDINATE  # false for NaN


def _is_unicode(value: str) -> bool:
    """Return whether a text can be written. JSON may hold half a character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
