"""Sets with official files: their folder, splits and samples, and the check of the files.

`OfficialSet` finds the annotation files of a split, lets the set's own function read the samples,
and refuses an id that stands twice; `viper data check` reports each file, the samples and the
media. A set is one object with two functions, `files` and `read`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.data.sample import DataSet, DatasetSpec, Finding, MediaFiles, Sample
from viper.data.source import SourceFile, brief
from viper.errors import DataError, UnknownNameError

# Missing media that a finding names: enough to see the pattern of a wrong folder, and one line.
NAMED_MISSING = 3


@dataclass(frozen=True)
class OfficialSet:
    """Data set of official files below one folder.

    Attributes:
        media_origin: where the media come from, for the error about missing ones.
        files: annotation files of a split below the root. They need not exist.
        read: samples of a split in those files, in their order.
    """

    name: str
    splits: tuple[str, ...]
    metric: str
    summary: str
    media_origin: str
    files: Callable[[Path, str], Sequence[SourceFile]]
    read: Callable[[Sequence[SourceFile], str], Iterable[Sample]]

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return the samples of a split in the order of the files.

        Raises:
            DataError: files are missing or not in the official format.
        """
        split = split_of(self, spec)
        sources = self.files(root_of(self, spec), split)
        return unique(self.read(sources, split), sources[0])

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Check the annotation files, the samples in them and their media."""
        root, split = root_of(self, spec), split_of(self, spec)
        findings = []
        for source in self.files(root, split):
            size = f"{source.path.stat().st_size:,} bytes" if source.path.is_file() else ""
            says = size or f"missing; it comes from {source.origin}"
            findings.append(Finding(bool(size), source.name, says))
        if not all(finding.ok for finding in findings):
            return findings
        try:
            samples = self.samples(spec)
        except DataError as error:
            return [*findings, Finding(False, "samples", str(error))]
        media = media_finding(samples, self.media_origin, self.has_media(root, split))
        return [*findings, Finding(True, "samples", f"{len(samples):,}"), media]

    def has_media(self, root: Path, split: str) -> Callable[[str], bool]:
        """Return a function that tells whether the medium of a name exists."""
        return lambda name: (root / name).is_file()


def of_files(root: Path, names: Sequence[str], **fields: Any) -> Sample:
    """Build a sample whose pictures, or one picture, are files below the root."""
    fields.setdefault("media", "image" if len(names) == 1 else "images")
    return Sample(**fields, load=MediaFiles(root, tuple(names)), files=tuple(names))


def root_of(data_set: DataSet, spec: DatasetSpec) -> Path:
    """Return the folder of the set's official files.

    Raises:
        DataError: none was given, or it is no folder.
    """
    if spec.root is None:
        raise DataError(
            f"{data_set.name} is read from its official files; give their folder with --root DIR"
        )
    if not spec.root.is_dir():
        raise DataError(f"{spec.root}: no such folder; expected that of {data_set.name}'s files")
    return spec.root


def split_of(data_set: DataSet, spec: DatasetSpec) -> str:
    """Return the requested split, or the set's first.

    Raises:
        UnknownNameError: no such split.
    """
    split = spec.split or data_set.splits[0]
    if split not in data_set.splits:
        raise UnknownNameError(f"split of {data_set.name}", split, data_set.splits)
    return split


def first_there(root: Path, names: Sequence[str]) -> str:
    """Return the first of several names that exists under root; else names[0]."""
    return next((name for name in names if (root / name).exists()), names[0])


def unique(samples: Iterable[Sample], source: SourceFile) -> list[Sample]:
    """Return the samples as a list.

    Raises:
        DataError: none, or two with the same id.
    """
    by_id: dict[str, Sample] = {}
    for sample in samples:
        if sample.sample_id in by_id:
            raise source.wrong("", f"has two samples {brief(sample.sample_id)}", "each id once")
        by_id[sample.sample_id] = sample
    if not by_id:
        raise source.wrong("", "holds no samples of this split", "at least one")
    return list(by_id.values())


def media_finding(samples: Sequence[Sample], origin: str, there: Callable[[str], bool]) -> Finding:
    """Report how many of the samples' media are missing, with the first names."""
    names = list(dict.fromkeys(name for sample in samples for name in sample.files))
    missing = [name for name in names if not there(name)]
    if not missing:
        return Finding(True, "media", f"all {len(names):,} are there")
    first = ", ".join(missing[:NAMED_MISSING])
    more = ", …" if len(missing) > NAMED_MISSING else ""
    says = f"{len(missing):,} of {len(names):,} are missing ({first}{more})"
    return Finding(False, "media", f"{says}; they come from {origin}" if origin else says)
