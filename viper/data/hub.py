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
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from viper.data.gqa import gqa_groups
from viper.data.layout import split_of, unique
from viper.data.nextqa import nextqa_sample
from viper.data.sample import DatasetSpec, Finding, Sample
from viper.data.source import Record, SourceFile
from viper.errors import DataError, MediaError, MissingExtraError
from viper.models.media import MAX_IMAGE_PIXELS, PICTURE_FORMATS
from viper.models.vision.roles import Pixels

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
        try:
            import datasets
            from datasets.exceptions import DatasetsError
        except ImportError:
            raise MissingExtraError("datasets", f"{PREFIX}{self.repository}") from None
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
        pictures = [decoded(_encoded(row[name]), self.where) for name in self.columns]
        return pictures if len(pictures) > 1 else pictures[0]


def _encoded(picture: Any) -> bytes:
    """Return the bytes of a picture in a table, which is a mapping or a text in base64."""
    if isinstance(picture, str):
        with suppress(ValueError):
            return b64decode(picture, validate=True)
    # A path instead of bytes could name any file of this machine.
    return (picture.get("bytes") if isinstance(picture, Mapping) else None) or b""


def decoded(data: bytes, where: str, formats: Sequence[str] = PICTURE_FORMATS) -> Pixels:
    """Return the picture as ``uint8 [H, W, 3]``, RGB.

    Args:
        where: what messages call it.
        formats: those that Pillow may take it for.

    Raises:
        MediaError: damaged, none of the formats, or too many pixels.
    """
    from PIL import Image

    try:
        with Image.open(BytesIO(data), formats=tuple(formats)) as image:
            if image.width * image.height > MAX_IMAGE_PIXELS:
                raise MediaError(f"{where}: {image.width} x {image.height} pixels are too many")
            return np.array(image.convert("RGB"), dtype=np.uint8)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise MediaError(f"{where}: no picture that can be read ({error}); get it again") from None


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
        yield number, Record.of(row, source, f" row {number}")


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
        answers = Record(dict(enumerate(row.items("answers"))), source, f"{row.at} answer")
        name = row.name("question_id")
        yield Sample(
            name,
            row.text("question"),
            task="question",
            media="image",
            target=tuple(answers.text(place) for place in answers.values),
            load=HubPicture(table, number, name),
            files=(name,),
        )


def _plain(*splits: str, config: str | None = None) -> dict[str, tuple[str | None, str]]:
    return {split: (config, split) for split in splits}


REFCOCO = HubSet(
    "lmms-lab/RefCOCO",
    "grounding",
    "RefCOCO from the hub",
    _expressions,
    _plain("val", "testA", "testB", "test"),
)
REFCOCO_PLUS = HubSet(
    "lmms-lab/RefCOCOplus",
    "grounding",
    "RefCOCO+ from the hub",
    _expressions,
    _plain("val", "testA", "testB"),
)
REFCOCOG = HubSet(
    "lmms-lab/RefCOCOg", "grounding", "RefCOCOg from the hub", _expressions, _plain("val", "test")
)
GQA = HubSet(
    "lmms-lab/GQA",
    "gqa",
    "GQA from the hub",
    _gqa,
    {
        "testdev_balanced": ("testdev_balanced", "testdev"),
        "testdev_all": ("testdev_all", "testdev"),
        "val_balanced": ("val_balanced", "val"),
    },
)
NEXTQA = HubSet(
    "lmms-lab/NExTQA",
    "nextqa",
    "NExT-QA from the hub; videos under --root",
    _nextqa,
    _plain("test", config="MC"),
)
OKVQA = HubSet("lmms-lab/OK-VQA", "okvqa", "OK-VQA from the hub", _okvqa, _plain("val2014"))
