"""NLVR: sentences that are true or false of a drawn picture.

Files: ``SPLIT/SPLIT.json``, one JSON object a line (``identifier`` ``N-M``, ``sentence``,
``label``, ``directory``), and six pictures for each, ``SPLIT/images/DIRECTORY/SPLIT-N-M-K.png``,
K = 0..5, which permute the picture's three boxes; unpacked, or in ``SPLIT/images.zip`` as the
repository has them. One sample is one picture; its id is the picture's name without suffix, and
N, by which the official consistency counts, is its cluster.

Source: Suhr et al., ACL 2017; https://github.com/lil-lab/nlvr (``nlvr/metrics_images.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.data.layout import check_official, root_of, split_of, unique
from viper.data.packed_pictures import PngArchive, PngInArchive
from viper.data.record import Record
from viper.data.sample import DatasetSpec, Finding, MediaFiles, Sample
from viper.data.source import SourceFile

ORIGIN = "https://github.com/lil-lab/nlvr (folder nlvr)"

PERMUTATIONS = 6

_IDENTIFIER = re.compile(r"[0-9]{1,9}-[0-9]{1,9}")


@dataclass(frozen=True)
class Nlvr:
    """Data set NLVR; see the module."""

    name: str = "nlvr"
    splits: tuple[str, ...] = ("dev", "train", "test")
    metric: str = "nlvr"
    summary: str = "true or false of a drawn picture (Suhr et al. 2017)"

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return six samples per line of the file, in its order."""
        root, split = root_of(self, spec), split_of(self, spec)
        source, archive = _annotations(root, split), _archive(root, split)

        def load(name: str) -> Callable[[], Any]:
            if archive is None:
                return MediaFiles(root, (name,))
            return PngInArchive(archive, name.removeprefix(f"{split}/"))

        lines = (Record.of(value, source, at) for at, value in source.json_lines())
        return unique((s for record in lines for s in _six(record, split, load)), source)

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Check annotations, samples and pictures, in the folder or in the archive."""
        root, split = root_of(self, spec), split_of(self, spec)
        archive = _archive(root, split)
        is_present = None
        if archive is not None:
            try:
                members = {f"{split}/{name}" for name in archive.names()}
            except OSError as error:
                return [Finding(False, f"{split}/images.zip", f"{error}; get it from {ORIGIN}")]
            is_present = members.__contains__
        sources = [_annotations(root, split)]
        return check_official(sources, lambda: self.samples(spec), ORIGIN, is_present)


def _annotations(root: Path, split: str) -> SourceFile:
    return SourceFile(root, f"{split}/{split}.json", ORIGIN)


def _archive(root: Path, split: str) -> PngArchive | None:
    """Return the archive of the pictures if they are not unpacked."""
    path = root / split / "images.zip"
    unpacked = (root / split / "images").is_dir()
    return PngArchive(path) if path.is_file() and not unpacked else None


def _six(record: Record, split: str, load: Callable[[str], Callable[[], Any]]) -> Iterator[Sample]:
    identifier = record.text("identifier")
    if not _IDENTIFIER.fullmatch(identifier):
        raise record.wrong("identifier", "two numbers as '1572-0'")
    folder = f"{split}/images"
    if "directory" in record.values:
        directory = record.name("directory")
        if not directory.isalnum():
            raise record.wrong("directory", "the number of a folder of pictures")
        folder = f"{folder}/{directory}"
    sentence, label = record.text("sentence"), record.truth("label")
    for permutation in range(PERMUTATIONS):
        sample_id = f"{split}-{identifier}-{permutation}"
        name = f"{folder}/{sample_id}.png"
        yield Sample(
            sample_id,
            sentence,
            task="statement",
            media="image",
            target=label,
            load=load(name),
            groups={"example": identifier},
            cluster=identifier.split("-")[0],
            files=(name,),
        )
