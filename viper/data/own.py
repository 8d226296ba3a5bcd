"""A user's own set: a CSV file with a header or JSON lines; or the pictures of a folder.

`OwnFile` reads every line, collects the wrong ones, and refuses the file or reports them all;
`folder_samples` lists the pictures and videos below a folder as samples without right answers.

Columns:
    media: a file name, or several: ``a.png; b.png``, or a list.
    query: the question, the statement, or what to find.
    answer: what is right, see below.
    options: of a choice: ``a; b; c``, or a list.
    task: ``ground``, ``question``, ``choice``, ``statement``, ``tag`` or ``edit``; without one,
        ``choice`` where there are options, else ``question``.
    id: without one, the line's number.

Answers: ``ground`` ``[x0, y0, x1, y1]``, pixels from the top-left corner; ``question`` a text, a
number, or a list of texts that are all right; ``choice`` one of the options, or its index from 0;
``statement`` true or false; ``tag`` a list of ``{"label": "cup", "box": [x0, y0, x1, y1]}``;
``edit`` nothing, or the name of a reference picture. In CSV, lists and objects are written as
JSON. Media are looked up beside the file, or under ``--root``; their names are relative.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from viper.data.layout import media_finding, unique
from viper.data.remote import RemoteFile, remote_files, remote_folder
from viper.data.sample import DatasetSpec, Finding, MediaFiles, Sample
from viper.data.source import Record, SourceFile, brief, check_name
from viper.errors import DataError, UnknownNameError, UsageError
from viper.schema import Query
from viper.storage.files import files_below

SUFFIXES = (".csv", ".jsonl")

COLUMNS = ("media", "query", "answer", "options", "task", "id")
REQUIRED = ("media", "query")

# The pages of a PDF are pictures.
PICTURE_SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif", ".ppm"}
    | {".pdf"}
)

# By which a file is told to be a picture or a video before it is read.
VIDEO_SUFFIXES = frozenset(
    {".mp4", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".m4v", ".gif"}
)


@dataclass(frozen=True)
class OwnFile:
    """A user's file as a data set.

    Attributes:
        path: the CSV or JSON-lines file.
        query: the query of lines without one; "" requires the column.
    """

    path: Path
    query: str = ""
    splits: tuple[str, ...] = ("all",)
    metric: str = "mixed"
    summary: str = "a file of your own"

    @property
    def name(self) -> str:
        return str(self.path)

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return one sample per line.

        Raises:
            DataError: a line is off: the first one, and how many there are.
        """
        good, wrong = self._read(spec)
        if wrong:
            more = f" ({len(wrong)} such lines: viper data check {self.path})"
            raise DataError(f"{wrong[0]}{more if len(wrong) > 1 else ''}")
        return unique(good, self._source)

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Report every wrong line, and the media."""
        if not self.path.is_file():
            return [Finding(False, str(self.path), "no such file")]
        try:
            good, wrong = self._read(spec)
            unique(good, self._source)
        except DataError as error:
            return [Finding(False, str(self.path), str(error))]
        root = spec.root or self.path.parent
        return [
            *(Finding(False, "line", str(error)) for error in wrong),
            Finding(not wrong, "samples", f"{len(good):,}"),
            media_finding(good, "", lambda name: (root / name).is_file()),
        ]

    @property
    def _source(self) -> SourceFile:
        return SourceFile(self.path.parent, self.path.name)

    def _read(self, spec: DatasetSpec) -> tuple[list[Sample], list[DataError]]:
        """Return the samples of valid lines, and the errors of the others."""
        if spec.split not in (None, *self.splits):
            raise UnknownNameError(f"split of {self.name}", str(spec.split), self.splits)
        root = spec.root or self.path.parent
        good: list[Sample] = []
        wrong: list[DataError] = []
        source, is_csv = self._source, self.path.suffix == ".csv"
        record_of: Callable[..., Record] = _csv_record if is_csv else _json_record
        columns = ("media",) if self.query else REQUIRED
        for at, line in source.csv_rows(columns) if is_csv else source.lines():
            try:
                record = record_of(line, source, at)
                if self.query:
                    record = replace(record, values={"query": self.query, **record.values})
                good.append(_sample(record, root))
            except DataError as error:
                wrong.append(error)
        return good, wrong


def _csv_record(row: dict[str, Any], source: SourceFile, at: str) -> Record:
    """Return a CSV row as a JSON record: no empty fields, lists and objects parsed."""
    if None in row:
        raise source.wrong(at, "has more fields than the header", "quotes around commas in a field")
    values: dict[str, Any] = {}
    for key, text in row.items():
        if not text or not text.strip():
            continue
        values[key] = text.strip()
        if key != "query" and text.strip()[0] in "[{":
            try:
                values[key] = json.loads(text)
            except (ValueError, RecursionError):
                raise Record(row, source, at).wrong(key, "JSON, as it begins like JSON") from None
    return Record(values, source, at)


def _json_record(line: str, source: SourceFile, at: str) -> Record:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise source.wrong(at, f"is no JSON: {brief(line)}", "one JSON object a line") from None
    record = Record.of(value, source, at)
    return Record({k: v for k, v in record.values.items() if v is not None}, source, at)


def _sample(record: Record, root: Path) -> Sample:
    unknown = [key for key in record.values if key not in COLUMNS]
    if unknown:
        seen = f"has an unknown column {brief(unknown[0])}"
        raise record.source.wrong(record.at, seen, f"some of {', '.join(COLUMNS)}")
    names = tuple(check_name(name, record, "media") for name in _text_list(record, "media"))
    query = record.text("query")
    options = _text_list(record, "options") if "options" in record.values else ()
    task = record.text("task") if "task" in record.values else ("choice" if options else "question")
    if task not in _ANSWERS:
        raise record.wrong("task", f"one of {', '.join(_ANSWERS)}")
    if (task == "choice") != bool(options):
        raise record.wrong("options", "two options or more with task choice, none with others")
    files = names
    target = _ANSWERS[task](record)
    if task == "edit" and target is not None:
        files, target = (*names, target), str(root / target)
    videos = [name for name in names if Path(name).suffix.lower() in VIDEO_SUFFIXES]
    if videos and len(names) > 1:
        raise record.wrong("media", "one video alone, or pictures")
    return Sample(
        record.name("id") if "id" in record.values else record.at.removeprefix(":"),
        query,
        task=task,
        media="video" if videos else "image" if len(names) == 1 else "images",
        target=target,
        load=MediaFiles(root, names),
        options=options,
        groups={"task": task},
        files=files,
    )


def _text_list(record: Record, key: str) -> tuple[str, ...]:
    """Return texts given as a list, or as one text with semicolons between them.

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
    options, value = _text_list(record, "options"), record.values.get("answer")
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


# Task to the reader of its target.
_ANSWERS: Mapping[str, Callable[[Record], Any]] = {
    "ground": lambda record: record.corner_box("answer"),
    "question": _question,
    "choice": _choice,
    "statement": lambda record: record.truth("answer"),
    "tag": lambda record: tuple(
        (tag.text("label"), tag.corner_box("box")) for tag in record.records("answer")
    ),
    "edit": lambda record: record.file_name("answer") if "answer" in record.values else None,
}


# Suffixes that a note names: the most frequent fill one line.
_NAMED_SUFFIXES = 5


@dataclass(frozen=True)
class FolderSamples:
    """The samples of a folder.

    Attributes:
        samples: one per picture or video, in a stable order. The id holds the fingerprint of the
            program and a hash of name, size and modification time.
        skipped: other files, by suffix. Hidden files are not counted.
        unreached: files that no sample stands for because they cannot be read, or are links to
            files outside the folder.
    """

    samples: list[Sample]
    skipped: Counter[str]
    unreached: int

    def notes(self) -> list[str]:
        """Return a line for each kind of files without a sample."""
        lines = []
        if self.skipped:
            named = ", ".join(name for name, _ in self.skipped.most_common(_NAMED_SUFFIXES))
            count = self.skipped.total()
            lines.append(f"skipped {count} files without the suffix of a picture or video: {named}")
        if self.unreached:
            lines.append(f"skipped {self.unreached} links to files outside, or unreadable files")
        return lines


def folder_samples(folder: str | Path, query: Query, fingerprint: str) -> FolderSamples:
    """Return the pictures and videos below a folder; their suffix tells them from other files.

    Args:
        folder: on this machine, or the address of a bucket, see :mod:`viper.data.remote`.

    Raises:
        UsageError: there is no such folder, or nothing in it.
        MissingExtraError: the package for such addresses is not installed.
    """
    address = remote_folder(str(folder))
    root = Path(folder).resolve()
    if address is None and not root.is_dir():
        raise UsageError(f"{folder}: no such folder; expected one with pictures or videos")
    states: Iterable[tuple[str, str | None]] = (
        (name, status and f"{status.st_size}\0{status.st_mtime_ns}")
        for name, status in files_below(root)
    )
    if address is not None:
        states = remote_files(address)
    samples: list[Sample] = []
    skipped: Counter[str] = Counter()
    unreached = 0
    for name, state in states:
        suffix = PurePosixPath(name).suffix.lower()
        if suffix not in PICTURE_SUFFIXES | VIDEO_SUFFIXES:
            skipped[suffix or "(none)"] += 1
        elif state is None:
            unreached += 1
        else:
            identity = f"{name}\0{state}".encode()
            load: Callable[[], Any] = MediaFiles(root, (name,))
            if address is not None:
                load = RemoteFile(f"{address}/{name}")
            sample = Sample(
                f"{fingerprint}-{hashlib.blake2b(identity, digest_size=8).hexdigest()}",
                query.text,
                task=query.task,
                media="video" if suffix in VIDEO_SUFFIXES else "image",
                target=None,
                load=load,
                options=query.options,
                fields=query.fields,
                files=(name,),
            )
            samples.append(sample)
    listed = FolderSamples(samples, skipped, unreached)
    if not samples:
        why = "".join(f"; {line}" for line in listed.notes())
        raise UsageError(f"{folder}: no picture or video in it{why}")
    return listed
