"""Data sets of a model hub, read by the ``datasets`` library (extra ``data``).

Names are ``hub:REPOSITORY``. With ``--root DIR``, a copy that ``save_to_disk`` wrote to
``DIR/REPOSITORY`` (``DIR/REPOSITORY/CONFIGURATION`` where there are several) comes first. The
tables are the Lmms-Lab's:

- RefCOCO, RefCOCOplus, RefCOCOg: ``image``, ``answer`` (the expressions of one object), ``bbox``
  [x, y, width, height], ``question_id``, ``file_name``. Sample id: ``ROW-QUESTIONID-N``.
- GQA: two tables, ``SPLIT_instructions`` (``id, imageId, question, answer, types``) and
  ``SPLIT_images`` (``id, image``). Sample id: ``id``.
- NExTQA, configuration ``MC``: the columns of the official CSV; the videos are not in the table
  and are looked up under the root as :mod:`viper.data.nextqa` does.
- OK-VQA: ``image, question, answers, question_id``. Sample id: ``question_id``.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.data.gqa import gqa_groups
from viper.data.layout import split_of, unique
from viper.data.nextqa import nextqa_sample
from viper.data.sample import DatasetSpec, Finding, Sample
from viper.data.source import Record, SourceFile
from viper.errors import DataError, MissingExtraError
from viper.models.media import picture_from
from viper.models.vision.roles import Pixels
from viper.plugins import need_packages

# With what the names of the hub's sets begin.
PREFIX = "hub:"


@dataclass(frozen=True)
class Tables:
    """The tables of one split of a repository."""

    repository: str
    config: str | None
    split: str
    root: Path | None

    def open(self, config: str | None) -> Any:
        """Return the ``datasets.Dataset`` of a configuration. Its pictures stay encoded.

        Raises:
            DataError: the hub cannot be reached, or has no such table.
            MissingExtraError: the ``datasets`` library is not installed.
        """
        need_packages(("datasets",), f"{PREFIX}{self.repository}")
        import datasets
        from datasets.exceptions import DatasetsError

        saved = None if self.root is None else self.root / self.repository / (config or "")
        try:
            if saved is not None and saved.is_dir():
                table = datasets.load_from_disk(str(saved))
                if isinstance(table, datasets.DatasetDict):
                    table = table[self.split]
            else:
                table = datasets.load_dataset(self.repository, config, split=self.split)
        except (OSError, ValueError, KeyError, RuntimeError, DatasetsError) as error:
            text = str(error).strip().split("\n")[0]
            raise DataError(
                f"{PREFIX}{self.repository}, split {self.split!r}: {type(error).__name__}: {text}; "
                "is the hub reachable? else give --root DIR with a saved copy"
            ) from None
        if "image" in table.column_names:
            return table.cast_column("image", datasets.Image(decode=False))
        return table


@dataclass(frozen=True)
class HubPicture:
    """Callable that returns the picture of a row, or a list of those in several columns."""

    table: Any
    row: int
    where: str
    columns: tuple[str, ...] = ("image",)

    def __call__(self) -> Pixels | list[Pixels]:
        row = self.table[self.row]
        pictures = []
        for picture in (row[name] for name in self.columns):
            data = b""
            if isinstance(picture, str):
                with suppress(ValueError):
                    data = b64decode(picture, validate=True)
            elif isinstance(picture, Mapping):
                # A path instead of bytes could name any file of this machine.
                data = picture.get("bytes") or b""
            pictures.append(picture_from(data, self.where))
        return pictures if len(pictures) > 1 else pictures[0]


@dataclass(frozen=True)
class HubSet:
    """Data set of one repository of the hub; see the module.

    Attributes:
        read: samples of an opened table; see the readers below.
        tables: configuration and split of the hub for each of ``splits``.
    """

    repository: str
    metric: str
    summary: str
    read: Callable[[Tables, SourceFile], Iterator[Sample]]
    tables: Mapping[str, tuple[str | None, str]]

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.repository}"

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.tables)

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return one sample per row (RefCOCO: per expression), in the table's order."""
        config, split = self.tables[split_of(self, spec)]
        tables = Tables(self.repository, config, split, spec.root)
        named = Path(self.name) if spec.root is None else spec.root
        source = SourceFile(named, f"{self.repository} {config or ''}".strip(), "the hub")
        return unique(self.read(tables, source), source)

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Check that the table can be read."""
        try:
            return [Finding(True, self.name, f"{len(self.samples(spec)):,} samples")]
        except (DataError, MissingExtraError) as error:
            return [Finding(False, self.name, str(error))]


def _rows(table: Any, source: SourceFile) -> Iterator[tuple[int, Record]]:
    slim = table.remove_columns([name for name in table.column_names if name == "image"])
    for number, row in enumerate(slim):
        yield number, Record(row, source, f" row {number}")


def _expressions(tables: Tables, source: SourceFile) -> Iterator[Sample]:
    table = tables.open(tables.config)
    for number, row in _rows(table, source):
        box, file = row.coco_box("bbox"), row.text("file_name")
        for place, expression in enumerate(row.items("answer")):
            yield Sample(
                f"{number}-{row.name('question_id')}-{place}",
                Record({"answer": expression}, source, row.at).text("answer"),
                task="ground",
                media="image",
                target=box,
                load=HubPicture(table, number, file),
                cluster="_".join(file.split("_")[:3]),
                files=(file,),
            )


def _gqa(tables: Tables, source: SourceFile) -> Iterator[Sample]:
    pictures = tables.open(f"{tables.config}_images")
    row_of = {str(name): row for row, name in enumerate(pictures["id"])}
    for _, row in _rows(tables.open(f"{tables.config}_instructions"), source):
        image = row.name("imageId")
        if image not in row_of:
            raise row.wrong("imageId", "the id of a picture of the other table")
        yield Sample(
            row.name("id"),
            row.text("question"),
            task="question",
            media="image",
            target=row.text("answer"),
            load=HubPicture(pictures, row_of[image], image),
            groups=gqa_groups(row),
            cluster=image,
            files=(image,),
        )


def _nextqa(tables: Tables, source: SourceFile) -> Iterator[Sample]:
    if tables.root is None:
        raise DataError("hub:lmms-lab/NExTQA has no videos; give --root DIR with videos/ID.mp4")
    for _, row in _rows(tables.open(tables.config), source):
        texts = {key: str(value) for key, value in row.values.items()}
        yield nextqa_sample(Record(texts, source, row.at), {})


def _okvqa(tables: Tables, source: SourceFile) -> Iterator[Sample]:
    table = tables.open(tables.config)
    for number, row in _rows(table, source):
        name = row.name("question_id")
        yield Sample(
            name,
            row.text("question"),
            task="question",
            media="image",
            target=row.texts("answers", "answer"),
            load=HubPicture(table, number, name),
            files=(name,),
        )


def _refcoco(repository: str, name: str, *splits: str) -> HubSet:
    tables, summary = {split: (None, split) for split in splits}, f"{name} from the hub"
    return HubSet(f"lmms-lab/{repository}", "grounding", summary, _expressions, tables)


REFCOCO = _refcoco("RefCOCO", "RefCOCO", "val", "testA", "testB", "test")
REFCOCO_PLUS = _refcoco("RefCOCOplus", "RefCOCO+", "val", "testA", "testB")
REFCOCOG = _refcoco("RefCOCOg", "RefCOCOg", "val", "test")

_GQA_SPLITS = ("testdev_balanced", "testdev_all", "val_balanced")
_GQA_TABLES = {name: (name, name.split("_")[0]) for name in _GQA_SPLITS}
GQA = HubSet("lmms-lab/GQA", "gqa", "GQA from the hub", _gqa, _GQA_TABLES)

_VIDEOS = "NExT-QA from the hub; videos under --root"
NEXTQA = HubSet("lmms-lab/NExTQA", "nextqa", _VIDEOS, _nextqa, {"test": ("MC", "test")})

_OKVQA_TABLES = {"val2014": (None, "val2014")}
OKVQA = HubSet("lmms-lab/OK-VQA", "okvqa", "OK-VQA from the hub", _okvqa, _OKVQA_TABLES)
