"""NLVR2: sentences that are true or false of a pair of photographs.

Files: ``data/SPLIT.json`` (or ``SPLIT.json``), one JSON object a line (``identifier``
``SPLIT-SET-PAIR-SENTENCE``, ``sentence``, ``label``), and two pictures for each,
``SPLIT-SET-PAIR-img0.png`` (left) and ``-img1.png`` (right), in ``SPLIT/`` or ``images/SPLIT/``;
those of the training split in numbered folders within, named by ``directory``. The id of a sample
is its identifier. Its cluster is the identifier without the number of the pair: the official
consistency counts a sentence once, over all its pairs.

Source: Suhr et al., ACL 2019; https://github.com/lil-lab/nlvr (``nlvr2/eval/metrics.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from viper.data.layout import check_official, first_there, root_of, split_of, unique
from viper.data.record import Record
from viper.data.sample import DatasetSpec, Finding, MediaFiles, Sample
from viper.data.source import SourceFile

ORIGIN = "https://github.com/lil-lab/nlvr (folder nlvr2/data)"
PICTURES = "the form at https://github.com/lil-lab/nlvr (nlvr2/README.md), or its util/ scripts"

_IDENTIFIER = re.compile(r"[a-z]+[0-9]?-[0-9]{1,9}-[0-9]{1,9}-[0-9]{1,9}")


@dataclass(frozen=True)
class Nlvr2:
    """Data set NLVR2; see the module."""

    name: str = "nlvr2"
    splits: tuple[str, ...] = ("dev", "test1", "test2", "train")
    metric: str = "nlvr2"
    summary: str = "true or false of two photographs (Suhr et al. 2019)"

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return one sample per line of the file, in its order."""
        root, split = root_of(self, spec), split_of(self, spec)
        source = _annotations(root, split)
        folder = first_there(root, (split, f"images/{split}"))
        return unique(
            (_sample(Record.of(value, source, at), folder) for at, value in source.json_lines()),
            source,
        )

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Check annotations, samples and pictures."""
        sources = [_annotations(root_of(self, spec), split_of(self, spec))]
        return check_official(sources, lambda: self.samples(spec), PICTURES)


def _annotations(root: Path, split: str) -> SourceFile:
    return SourceFile(root, first_there(root, (f"data/{split}.json", f"{split}.json")), ORIGIN)


def _sample(record: Record, folder: str) -> Sample:
    identifier = record.text("identifier")
    if not _IDENTIFIER.fullmatch(identifier):
        raise record.wrong("identifier", "a split and three numbers as 'dev-850-0-1'")
    split, set_number, pair, sentence = identifier.split("-")
    if "directory" in record.values:
        directory = record.name("directory")
        if not directory.isalnum():
            raise record.wrong("directory", "the number of a folder of pictures")
        folder = f"{folder}/{directory}"
    names = tuple(f"{folder}/{split}-{set_number}-{pair}-img{side}.png" for side in (0, 1))
    return Sample(
        identifier,
        record.text("sentence"),
        task="statement",
        media="images",
        target=record.truth("label"),
        load=MediaFiles(record.source.root, names),
        cluster=f"{split}-{set_number}--{sentence}",
        files=names,
    )
