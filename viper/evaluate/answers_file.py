"""Table of the answers about many files, as CSV or JSON lines, which a killed process continues.

Rows are appended as they come. At the start of the next session, and at the end, the file is
replaced as a whole: without rows of files that changed or are gone, in the order of the files.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from viper.api.written import field_types
from viper.data.sample import Sample
from viper.errors import UsageError
from viper.escape import csv_text, for_csv
from viper.evaluate.sample_result import SampleResult
from viper.schema import Trace
from viper.storage.files import WriterLock, file_errors, write_file
from viper.storage.json_lines import dumps, plain

# Columns of the table. The last one tells the file's state, and whether a row is whole.
COLUMNS = (
    "file", "answer", "answer_kind", "box", "confidence", "warnings", "failure", "message", "key",
)  # fmt: skip

SUFFIXES = (".csv", ".jsonl")

# Characters of a cell of CSV; spreadsheets read no more.
MAX_CELL = 32_767

# Key, failure and line.
Row = tuple[str, str | None, str]

_KEY = re.compile(r"([0-9a-f]{16})-[0-9a-f]{16}")


class AnswersFile:
    """Rows of a table by the keys of its samples; see :class:`viper.data.own.FolderSamples`.

    Each field of an extraction is a column before the key.

    Implements :class:`viper.evaluate.campaign.ResultStore`. One process writes at a time.

    Args:
        path: file with one of :data:`SUFFIXES`.
        samples: what the whole table has rows of.
        fingerprint: the first part of their keys.
        anew: replace an existing file, whatever it holds.
        retry: answer again what failed.

    Attributes:
        dropped: rows of an earlier session whose file changed or is gone.

    Raises:
        UsageError: the file holds answers of another program, or something else.
        StoreError: it cannot be written, or another process is writing it.
    """

    def __init__(
        self,
        path: Path,
        samples: Sequence[Sample],
        fingerprint: str,
        *,
        anew: bool = False,
        retry: bool = False,
    ) -> None:
        self.path, self.dropped = path, 0
        named = next((sample.fields for sample in samples), ())
        self._fields = tuple(field_types(named)) if named else ()
        if clash := set(self._fields).intersection(COLUMNS):
            raise UsageError(f"the field {min(clash)!r} is a column of every table; rename it")
        self._columns = (*COLUMNS[:-1], *self._fields, COLUMNS[-1])
        self._is_csv = path.suffix.lower() == ".csv"
        self._keys = [sample.sample_id for sample in samples]
        self._rows: dict[str, tuple[str | None, str]] = {}  # failure and line by key
        with file_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = WriterLock(path.with_name(f".{path.name}.lock"), "this table")
        try:
            if path.exists() and not anew:
                self._read(fingerprint, retry)
            self.finish()
            with file_errors(path):
                self._file = path.open("ab")
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> AnswersFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._lock.release()

    def rows(self) -> Iterator[SampleResult]:
        """Yield key and failure of each row."""
        for key, (failure, _) in self._rows.items():
            yield SampleResult(key, 0, 0.0 if failure else 1.0, failure=failure)

    def done(self) -> set[tuple[str, int]]:
        """Return the keys of the rows; every seed is 0."""
        return {(key, 0) for key in self._rows}

    def add(self, position: int, result: SampleResult, trace: Trace | None) -> None:
        """Append a row. Once this returns, a kill of the process cannot undo it.

        Raises:
            StoreError: full disk or another error; a later session removes half a row.
        """
        facts: tuple[Any, ...] = (None, None, None, None)
        answer = None if trace is None or result.failure else trace.answer
        if answer is not None:
            facts = (answer.value, answer.kind, answer.box, answer.confidence)
        warnings = [mark.removeprefix("warning:") for mark in result.marks]
        read = {e["field"]: e["value"] for e in answer.value} if answer and self._fields else {}
        ends = (warnings, result.failure, result.message, *map(read.get, self._fields))
        cells = (result.files[0], *facts, *ends, result.sample_id)
        if self._is_csv:
            # still the path of the file, which an apostrophe would not leave
            is_formula = for_csv(result.files[0]).startswith("'")
            cells = (f"./{result.files[0]}" if is_formula else result.files[0], *cells[1:])
            line = csv_text([map(cell, cells)])
        else:
            values = plain(dict(zip(self._columns, cells, strict=True)))
            line = json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"
        with file_errors(self.path):
            self._file.write(line.encode("utf-8", "replace"))
            self._file.flush()
        self._rows[result.sample_id] = result.failure, line

    def finish(self) -> None:
        """Put the rows in the order of the samples.

        Raises:
            StoreError: it cannot be written; the rows stay as they were.
        """
        header = csv_text([self._columns]) if self._is_csv else ""
        lines = (self._rows[key][1] for key in self._keys if key in self._rows)
        write_file(self.path, (header + "".join(lines)).encode("utf-8", "replace"))

    def _read(self, fingerprint: str, retry: bool) -> None:
        with file_errors(self.path):
            text = self.path.read_bytes().decode("utf-8", "replace")
        wanted = set(self._keys)
        read = _csv_rows if self._is_csv else _json_rows
        for key, failure, line in read(self.path, text, self._columns):
            if not key.startswith(f"{fingerprint}-"):
                raise UsageError(
                    f"{self.path}: holds answers of another program, folder, profile or version; "
                    "choose another -o, or --force to begin anew"
                )
            if key not in wanted:
                self.dropped += 1
            elif not (failure and retry):
                self._rows[key] = failure, line


def cell(value: Any) -> str:
    """Return a value as a cell: text and numbers as they are, other values as JSON."""
    if value is None or value == []:
        return ""
    if isinstance(value, str):
        return for_csv(value)[:MAX_CELL]
    if isinstance(value, bool | int | float):
        return str(plain(value))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return for_csv("; ".join(value))[:MAX_CELL]
    return dumps(value)[:MAX_CELL]


def _csv_rows(path: Path, text: str, columns: Sequence[str]) -> Iterator[Row]:
    """Yield key, failure and line of the rows, without a last one that was cut short."""
    table = csv.reader(io.StringIO(text, newline=""))
    whole = text.endswith("\n")
    try:
        rows = [(table.line_num, row) for row in table]
    except csv.Error as error:
        raise _not_ours(path, table.line_num) from error
    if rows and (rows[0][1] != list(columns) or (len(rows) == 1 and not whole)):
        raise _not_ours(path, 1)
    for at, (number, row) in enumerate(rows[1:], start=2):
        values = dict(zip(columns, row, strict=False))
        is_whole = len(row) == len(columns) and _KEY.fullmatch(row[-1])
        if at == len(rows) and not (whole and is_whole):
            return
        if not is_whole:
            raise _not_ours(path, number)
        yield values["key"], values["failure"] or None, csv_text([row])


def _json_rows(path: Path, text: str, _: Sequence[str]) -> Iterator[Row]:
    """Yield key, failure and line of the rows, without a last one that was cut short."""
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict) or not _KEY.fullmatch(str(values.get("key"))):
            raise _not_ours(path, number)
        yield values["key"], values.get("failure"), f"{line}\n"


def _not_ours(path: Path, line: int) -> UsageError:
    return UsageError(
        f"{path}:{line}: no row of viper apply; choose another -o, or --force to begin anew"
    )
