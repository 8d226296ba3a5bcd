"""Files of data sets and the records in them; what is off becomes one line about the file.

A `SourceFile` reads JSON, JSON lines, CSV or bytes; each object or row becomes a `Record`, whose
methods return a field of the expected kind or raise a DataError with file, place and value seen.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path, PurePosixPath, PureWindowsPath
from reprlib import Repr
from string import ascii_uppercase
from typing import Any, BinaryIO, TextIO

from viper.errors import DataError
from viper.schema import PixelBox

# A value seen in an error fits on the line beside path and expectation.
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxlevel = 2

# Longer numbers are told by their size: Python refuses to print thousands of digits.
_LONG_INT_BITS = 128


def brief(value: Any) -> str:
    """Return an untrusted value of a file as a few characters in one line."""
    if isinstance(value, int) and value.bit_length() > _LONG_INT_BITS:
        return f"a number of {value.bit_length()} bits"
    return _SHORT.repr(value)


@dataclass(frozen=True)
class SourceFile:
    """One file of a data set.

    Attributes:
        root: the set's folder.
        name: the file's name under it, as ``dev/dev.json``.
        origin: where the official file comes from; empty for a user's own file.
    """

    root: Path
    name: str
    origin: str = ""

    @property
    def path(self) -> Path:
        """Return the path where the file should be."""
        return self.root / self.name

    def wrong(self, at: str, seen: str, expected: str) -> DataError:
        """Return the error that states what was seen at a place (``:3``) and what to do."""
        todo = f"get it again from {self.origin}" if self.origin else "correct it"
        return DataError(f"{self.path}{at}: {seen}; expected {expected}; {todo}")

    def missing(self) -> DataError:
        """Return the error for a missing file."""
        todo = f"it comes from {self.origin}" if self.origin else "check the path"
        return DataError(f"{self.path}: no such file; {todo}")

    def read_bytes(self, most: int) -> bytes:
        """Read the file's bytes.

        Raises:
            DataError: missing, unreadable, or longer than ``most`` bytes.
        """
        with self.opened() as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise self.wrong("", f"is longer than {most:,} bytes", "a file within that")
        return data

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the file for reading. An OSError in the block counts as the file's.

        Raises:
            DataError: missing or unreadable.
        """
        try:
            with self.path.open("rb") as file:
                yield file
        except FileNotFoundError:
            raise self.missing() from None
        except OSError as error:
            seen = error.strerror or error
            raise DataError(f"{self.path}: {seen}; expected a file to read") from None

    def read_json(self, hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
        """Read the JSON value in the file.

        Args:
            hook: as ``object_hook`` of :func:`json.load`. It drops unneeded values while
                reading, so that a huge file needs little more memory than its text.

        Raises:
            DataError: missing, unreadable or not JSON.
        """
        try:
            with self.opened() as file:
                return json.load(file, object_hook=hook)
        except (ValueError, RecursionError) as error:
            raise self._unreadable("", error) from None

    def json_lines(self) -> Iterator[tuple[str, Any]]:
        """Yield place (``:3``) and value of each line that is not blank.

        Raises:
            DataError: missing, unreadable, or a line that is not JSON.
        """
        for at, line in self.lines():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise self._unreadable(at, error) from None
            yield at, value

    def records(self) -> Iterator[Record]:
        """Yield the object on each line that is not blank.

        Raises:
            DataError: as :meth:`json_lines`, or a line that is no object.
        """
        return (Record.of(value, self, at) for at, value in self.json_lines())

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield place and text of each line that is not blank, without surrounding white space.

        Raises:
            DataError: missing, unreadable or not UTF-8.
        """
        with self._opened_text() as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f":{number}", line.strip()

    def csv_rows(self, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield place and fields of each row. Surplus fields are under the key None.

        Args:
            columns: those that the header must name.

        Raises:
            DataError: missing, unreadable, not CSV, or without one of the columns.
        """
        try:
            with self._opened_text(newline="") as file:
                reader = csv.DictReader(file)
                named = reader.fieldnames or ()
                lacking = [column for column in columns if column not in named]
                if lacking:
                    other = next((mark for mark in ";\t|" if mark in "".join(named)), None)
                    if len(named) == 1 and other is not None:
                        seen = f"the header is separated by {other!r}"
                        raise self.wrong(":1", seen, "commas between the columns")
                    seen = f"the header is {brief(list(named))}"
                    raise self.wrong(":1", seen, f"the columns {', '.join(columns)}")
                for row in reader:
                    yield f":{reader.line_num}", row
        except csv.Error as error:
            raise self.wrong("", f"is no CSV ({error})", "comma-separated values") from None

    @contextmanager
    def _opened_text(self, newline: str | None = None) -> Iterator[TextIO]:
        try:
            with self.opened() as file:
                yield TextIOWrapper(file, "utf-8-sig", newline=newline)
        except UnicodeDecodeError as error:
            raise self._unreadable("", error) from None

    def _unreadable(self, at: str, error: Exception) -> DataError:
        if isinstance(error, json.JSONDecodeError):
            seen = f"is cut short or no JSON ({error.msg} at line {error.lineno})"
        elif isinstance(error, UnicodeDecodeError):
            return self.wrong("", f"byte {error.start} is not UTF-8", "text in UTF-8")
        elif isinstance(error, RecursionError):
            seen = "is nested too deeply"
        else:
            seen = "holds a number of thousands of digits"
        return self.wrong(at, seen, "JSON")


# No picture is as wide; greater numbers are damage, and their products would not be exact.
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
        text = value.strip() if isinstance(value, str) else ""
        # JSON may hold half a character, which cannot be written again
        if not text or text != text.encode(errors="ignore").decode():
            raise self.wrong(key, "a text")
        return text

    def whole(self, key: str, expected: str = "a whole number") -> int:
        """Return a whole number. A text of digits is not accepted."""
        value = self.values.get(key)
        # ids and counts fit 64 bits; a longer number is damage, and slow to print
        if not isinstance(value, int) or isinstance(value, bool) or value.bit_length() > 64:
            raise self.wrong(key, expected)
        return value

    def digits(self, key: str) -> int:
        """Return a whole number from 0 in a table of texts."""
        value = self.values.get(key)
        # 18 digits always fit 64 bits, and int() of a long text takes time
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
        if isinstance(self.values.get(key), str):
            return self.text(key)
        return str(self.whole(key, "a text or a whole number"))

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

    def texts(self, key: str, each: str) -> tuple[str, ...]:
        """Return a list of texts; messages about one of them say ``each``."""
        parts = Record(dict(enumerate(self.items(key))), self.source, f"{self.at} {each}")
        return tuple(parts.text(place) for place in parts.values)

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

    def coco_box(self, key: str, *, may_be_empty: bool = False) -> PixelBox:
        """Return ``[x, y, width, height]`` as ``(x0, y0, x1, y1)`` in pixels."""
        expected = f"[x, y, width, height] in pixels{'' if may_be_empty else ', not empty'}"
        x, y, width, height = self._four(key, expected)
        if min(width, height) < 0 or not (width and height or may_be_empty):
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
        # a truth value is an int to Python; float64 of numpy is a float; NaN is below nothing
        fits = [
            isinstance(each, int | float) and type(each) is not bool and abs(each) <= MAX_COORDINATE
            for each in numbers
        ]
        if len(fits) != 4 or not all(fits):
            raise self.wrong(key, expected)
        a, b, c, d = map(float, numbers)
        return (a, b, c, d)


def check_name(name: str, record: Record, key: str) -> str:
    """Return the name if, as a path of any system, it is relative and stays below the folder.

    Raises:
        DataError: an absolute name, one with ``..``, a drive or a null character.
    """
    for path in (PurePosixPath(name), PureWindowsPath(name)):
        # no set names files so deep; Linux refuses paths of 4,096 characters with the folder
        if path.anchor or ".." in path.parts or "\0" in name or len(name) > 1024:
            raise record.source.wrong(
                record.at,
                f"{key!r} names {brief(name)}",
                "a relative name without '..', of a file under the set's folder",
            )
    return name
