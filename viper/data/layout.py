"""Shared parts of sets with official files: folder, splits, and checks of the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from viper.data.sample import DataSet, DatasetSpec, Finding, Sample
from viper.data.source import SourceFile, brief
from viper.errors import DataError, UnknownNameError

# Missing media that a finding names.
NAMED_MISSING = 3


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
    result = list(samples)
    ids: set[str] = set()
    for sample in result:
        if sample.sample_id in ids:
            raise source.wrong("", f"has two samples {brief(sample.sample_id)}", "each id once")
        ids.add(sample.sample_id)
    if not result:
        raise source.wrong("", "holds no samples of this split", "at least one")
    return result


def check_official(
    sources: Sequence[SourceFile],
    samples: Callable[[], Sequence[Sample]],
    media_origin: str,
    there: Callable[[str], bool] | None = None,
) -> list[Finding]:
    """Check the annotation files of a set, the samples in them and their media.

    Args:
        sources: the annotation files, all under one root.
        samples: reads the samples; called if all files are there.
        media_origin: where the media come from.
        there: whether the medium of a name is there; None looks under the root.
    """
    findings = [_file(source) for source in sources]
    if not all(finding.ok for finding in findings):
        return findings
    try:
        read = samples()
    except DataError as error:
        return [*findings, Finding(False, "samples", str(error))]
    findings.append(Finding(True, "samples", f"{len(read):,}"))
    root = sources[0].root
    return [*findings, media_finding(read, media_origin, there or (lambda n: (root / n).is_file()))]


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


def _file(source: SourceFile) -> Finding:
    if not source.path.is_file():
        return Finding(False, source.name, f"missing; it comes from {source.origin}")
    return Finding(True, source.name, f"{source.path.stat().st_size:,} bytes")
