"""V*Bench: multiple choice about small things in large photographs.

Files: ``test_questions.jsonl``, lines of ``{image, text, category, question_id, label}``, and the
pictures that ``image`` names, ``direct_attributes/sa_4690.jpg`` or ``relative_position/…``.
``text`` is the question, a line ``(A) rubber`` for each option, and a request for a letter, which
is left out. The id of a sample is the picture's name without suffix. Group: ``category``.

Source: Wu and Xie, CVPR 2024; https://huggingface.co/datasets/craigwu/vstar_bench. Accuracy by
category and over all: ``vstar_bench_eval.py`` of https://github.com/penghao-wu/vstar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from viper.data.layout import check_official, root_of, split_of, unique
from viper.data.record import Record
from viper.data.sample import DatasetSpec, Finding, MediaFiles, Sample
from viper.data.source import SourceFile

ORIGIN = "https://huggingface.co/datasets/craigwu/vstar_bench"

REQUEST = "Answer with the option's letter from the given choices directly."

_LETTER = re.compile(r"\s*\([A-Z]\)\s*")


@dataclass(frozen=True)
class VStar:
    """Data set V*Bench; see the module."""

    name: str = "vstar"
    splits: tuple[str, ...] = ("test",)
    metric: str = "answers"
    summary: str = "multiple choice about small things (Wu and Xie 2024)"

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return one sample per line of the file, in its order."""
        source = self._questions(spec)
        lines = (Record.of(value, source, at) for at, value in source.json_lines())
        return unique(map(_sample, lines), source)

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Check questions, samples and pictures."""
        return check_official([self._questions(spec)], lambda: self.samples(spec), ORIGIN)

    def _questions(self, spec: DatasetSpec) -> SourceFile:
        root, split = root_of(self, spec), split_of(self, spec)
        return SourceFile(root, f"{split}_questions.jsonl", ORIGIN)


def _sample(record: Record) -> Sample:
    image = record.file_name("image")
    question, *options = _LETTER.split(record.text("text").removesuffix(REQUEST).strip())
    if not question or len(options) < 2 or not all(options):
        raise record.wrong("text", "a question with a line '(A) …' for each of its options")
    return Sample(
        str(PurePosixPath(image).with_suffix("")),
        question,
        task="choice",
        media="image",
        target=record.letter("label", len(options)),
        load=MediaFiles(record.source.root, (image,)),
        options=tuple(options),
        groups={"category": record.text("category")},
        cluster=image,
        files=(image,),
    )
