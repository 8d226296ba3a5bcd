"""NLVR and NLVR2: sentences that are true or false of a drawn picture, or of two photographs.

NLVR's files: ``SPLIT/SPLIT.json``, one JSON object a line (``identifier`` ``N-M``, ``sentence``,
``label``, ``directory``), and six pictures for each, ``SPLIT/images/DIRECTORY/SPLIT-N-M-K.png``,
K = 0..5, which permute the picture's three boxes; unpacked, or in ``SPLIT/images.zip`` as the
repository has them. One sample is one picture; its id is the picture's name without suffix, and
N, by which the official consistency counts, is its cluster.

NLVR2's files: ``data/SPLIT.json`` (or ``SPLIT.json``), one JSON object a line (``identifier``
``SPLIT-SET-PAIR-SENTENCE``, ``sentence``, ``label``), and two pictures for each,
``SPLIT-SET-PAIR-img0.png`` (left) and ``-img1.png`` (right), in ``SPLIT/`` or ``images/SPLIT/``;
those of the training split in numbered folders within, named by ``directory``. The id of a sample
is its identifier. Its cluster is the identifier without the number of the pair: the official
consistency counts a sentence once, over all its pairs.

Source: Suhr et al., ACL 2017 and 2019; https://github.com/lil-lab/nlvr
(``nlvr/metrics_images.py``, ``nlvr2/eval/metrics.py``).
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from viper.data.layout import OfficialSet, first_there, of_files, split_of
from viper.data.sample import DatasetSpec, Finding, Sample
from viper.data.source import Record, SourceFile
from viper.errors import MediaError
from viper.models.media import picture_from
from viper.models.vision.roles import Pixels

ORIGIN = "https://github.com/lil-lab/nlvr (folder nlvr)"
ORIGIN2 = "https://github.com/lil-lab/nlvr (folder nlvr2/data)"
PICTURES2 = "the form at https://github.com/lil-lab/nlvr (nlvr2/README.md), or its util/ scripts"

# NLVR shows each example in the six orders of its three boxes, one picture each.
PERMUTATIONS = 6

_IDENTIFIER = re.compile(r"[0-9]{1,9}-[0-9]{1,9}")
_IDENTIFIER2 = re.compile(r"[a-z]+[0-9]?-[0-9]{1,9}-[0-9]{1,9}-[0-9]{1,9}")

# Longer members are refused, whatever size their header claims. NLVR draws 400 x 100 pixels.
MAX_MEMBER_BYTES = 16 * 2**20


class PngArchive:
    """Zip archive of PNGs, opened at the first read. Each process opens its own handle.

    It can be pickled.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened: tuple[int, ZipFile] | None = None

    def names(self) -> list[str]:
        """Return the names of the members.

        Raises:
            OSError: missing, or no archive.
        """
        try:
            return self._zip().namelist()
        except (BadZipFile, NotImplementedError, ValueError) as error:
            raise OSError(f"{self.path}: is no zip archive that can be read ({error})") from None

    def read(self, name: str) -> Pixels:
        """Read a member as ``uint8 [H, W, 3]``, RGB.

        Raises:
            MediaError: no such member, too long, damaged, or no PNG.
        """
        where = f"{self.path}: {name}"
        try:
            archive = self._zip()
            if archive.getinfo(name).compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                raise MediaError(f"{where}: packed in a rare way; expected deflated; get it again")
            with archive.open(name) as member:
                data = member.read(MAX_MEMBER_BYTES + 1)
        except KeyError:
            raise MediaError(f"{where}: not in the archive; get it again") from None
        except (OSError, EOFError, RuntimeError, ValueError, BadZipFile, zlib.error) as error:
            raise MediaError(f"{where}: cannot be read ({error}); get it again") from None
        if len(data) > MAX_MEMBER_BYTES:
            raise MediaError(f"{where}: longer than {MAX_MEMBER_BYTES:,} bytes; expected a picture")
        return picture_from(data, where)

    def _zip(self) -> ZipFile:
        # A handle that is shared by a fork would share its position, too.
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = (os.getpid(), ZipFile(self.path))
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_opened": None}


class _Nlvr(OfficialSet):
    """NLVR, whose pictures may be in an archive."""

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        try:
            return super().check(spec)
        except OSError as error:
            name = f"{split_of(self, spec)}/images.zip"
            return [Finding(False, name, f"{error}; get it from {ORIGIN}")]

    def has_media(self, root: Path, split: str) -> Callable[[str], bool]:
        archive = _archive(root, split)
        if archive is None:
            return super().has_media(root, split)
        return {f"{split}/{name}" for name in archive.names()}.__contains__


def _archive(root: Path, split: str) -> PngArchive | None:
    """Return the archive of the pictures if they are not unpacked."""
    path = root / split / "images.zip"
    unpacked = (root / split / "images").is_dir()
    return PngArchive(path) if path.is_file() and not unpacked else None


def _files(root: Path, split: str) -> list[SourceFile]:
    return [SourceFile(root, f"{split}/{split}.json", ORIGIN)]


def _read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    root = sources[0].root
    archive = _archive(root, split)
    for record in sources[0].records():
        identifier = record.text("identifier")
        if not _IDENTIFIER.fullmatch(identifier):
            raise record.wrong("identifier", "two numbers as '1572-0'")
        folder = _folder(record, f"{split}/images")
        sentence, label = record.text("sentence"), record.truth("label")
        for permutation in range(PERMUTATIONS):
            sample_id = f"{split}-{identifier}-{permutation}"
            name = f"{folder}/{sample_id}.png"
            sample = of_files(
                root,
                [name],
                sample_id=sample_id,
                text=sentence,
                task="statement",
                target=label,
                groups={"example": identifier},
                cluster=identifier.split("-")[0],
            )
            if archive is not None:
                member = name.removeprefix(f"{split}/")
                sample = replace(sample, load=partial(archive.read, member))
            yield sample


def _files2(root: Path, split: str) -> list[SourceFile]:
    return [SourceFile(root, first_there(root, (f"data/{split}.json", f"{split}.json")), ORIGIN2)]


def _read2(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    root = sources[0].root
    pictures = first_there(root, (split, f"images/{split}"))
    for record in sources[0].records():
        identifier = record.text("identifier")
        if not _IDENTIFIER2.fullmatch(identifier):
            raise record.wrong("identifier", "a split and three numbers as 'dev-850-0-1'")
        part, set_number, pair, sentence = identifier.split("-")
        folder = _folder(record, pictures)
        yield of_files(
            root,
            [f"{folder}/{part}-{set_number}-{pair}-img{side}.png" for side in (0, 1)],
            sample_id=identifier,
            text=record.text("sentence"),
            task="statement",
            target=record.truth("label"),
            cluster=f"{part}-{set_number}--{sentence}",
        )


def _folder(record: Record, pictures: str) -> str:
    """Return the folder of a record's pictures, below a numbered folder if it names one."""
    if "directory" not in record.values:
        return pictures
    directory = record.name("directory")
    if not directory.isalnum():
        raise record.wrong("directory", "the number of a folder of pictures")
    return f"{pictures}/{directory}"


NLVR = _Nlvr(
    "nlvr",
    ("dev", "train", "test", "hidden"),
    "nlvr",
    "true or false of a drawn picture (Suhr et al. 2017)",
    ORIGIN,
    _files,
    _read,
)
NLVR2 = OfficialSet(
    "nlvr2",
    ("dev", "test1", "test2", "train"),
    "nlvr2",
    "true or false of two photographs (Suhr et al. 2019)",
    PICTURES2,
    _files2,
    _read2,
)
