"""The pictures and videos below a folder as samples of one query, without right answers."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from viper.data.own import PICTURE_SUFFIXES, VIDEO_SUFFIXES
from viper.data.sample import MediaFiles, Sample
from viper.errors import UsageError
from viper.schema import Query
from viper.storage.files import files_below

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


def folder_samples(folder: Path, query: Query, fingerprint: str) -> FolderSamples:
    """Return the pictures and videos below a folder; their suffix tells them from other files.

    Raises:
        UsageError: there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; expected one with pictures or videos")
    root = folder.resolve()
    listed = FolderSamples([], Counter(), 0)
    unreached = 0
    for name, status in files_below(root):
        suffix = PurePosixPath(name).suffix.lower()
        if suffix not in PICTURE_SUFFIXES | VIDEO_SUFFIXES:
            listed.skipped[suffix or "(none)"] += 1
        elif status is None:
            unreached += 1
        else:
            identity = f"{name}\0{status.st_size}\0{status.st_mtime_ns}".encode()
            digest = hashlib.blake2b(identity, digest_size=8).hexdigest()
            sample = Sample(
                sample_id=f"{fingerprint}-{digest}",
                text=query.text,
                task=query.task,
                media="video" if suffix in VIDEO_SUFFIXES else "image",
                target=None,
                load=MediaFiles(root, (name,)),
                options=query.options,
                files=(name,),
            )
            listed.samples.append(sample)
    listed = FolderSamples(listed.samples, listed.skipped, unreached)
    if not listed.samples:
        why = "".join(f"; {line}" for line in listed.notes())
        raise UsageError(f"{folder}: no picture or video in it{why}")
    return listed
