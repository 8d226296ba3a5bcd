"""Files of data sets: reading, and errors in one line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from reprlib import Repr
from typing import Any, BinaryIO, TextIO

from viper.errors import DataError

_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxlevel = 2

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
        except OSError as error:
            raise self._unreadable(error) from None

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
            raise self._no_json("", error) from None

    def json_lines(self) -> Iterator[tuple[str, Any]]:
        """Yield place (``:3``) and value of each line that is not blank.

        Raises:
            DataError: missing, unreadable, or a line that is not JSON.
        """
        for at, line in self.lines():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise self._no_json(at, error) from None
            yield at, value

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
                    seen = f"the header is {brief(list(named))}"
                    raise self.wrong(":1", seen, f"the columns {', '.join(columns)}")
                for row in reader:
                    yield f":{reader.line_num}", row
        except csv.Error as error:
            raise self.wrong("", f"is no CSV ({error})", "comma-separated values") from None

    @contextmanager
    def _opened_text(self, newline: str | None = None) -> Iterator[TextIO]:
        try:
            with self.path.open(encoding="utf-8-sig", newline=newline) as file:
                yield file
        except OSError as error:
            raise self._unreadable(error) from None
        except UnicodeDecodeError as error:
            raise self._no_text(error) from None

    def _unreadable(self, error: OSError) -> DataError:
        if isinstance(error, FileNotFoundError):
            return self.missing()
        return DataError(f"{self.path}: {error.strerror or error}; expected a file to read")

    def _no_text(self, error: UnicodeDecodeError) -> DataError:
        return self.wrong("", f"byte {error.start} is not UTF-8", "text in UTF-8")

    def _no_json(self, at: str, error: Exception) -> DataError:
        if isinstance(error, json.JSONDecodeError):
            seen = f"is cut short or no JSON ({error.msg} at line {error.lineno})"
        elif isinstance(error, UnicodeDecodeError):
            return self._no_text(error)
        elif isinstance(error, RecursionError):
            seen = "is nested too deeply"
        else:
            seen = "holds a number of thousands of digits"
        return self.wrong(at, seen, "JSON")
