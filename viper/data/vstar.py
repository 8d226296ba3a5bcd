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
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from viper.data.layout import OfficialSet, of_files
from viper.data.sample import Sample
from viper.data.source import SourceFile

ORIGIN = "https://huggingface.co/datasets/craigwu/vstar_bench"

REQUEST = "Answer with the option's letter from the given choices directly."

_LETTER = re.compile(r"\s*\([A-Z]\)\s*")


def _files(root: Path, split: str) -> list[SourceFile]:
    return [SourceFile(root, f"{split}_questions.jsonl", ORIGIN)]


def _read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    for record in sources[0].records():
        image = record.file_name("image")
        question, *options = _LETTER.split(record.text("text").removesuffix(REQUEST).strip())
        if not question or len(options) < 2 or not all(options):
            raise record.wrong("text", "a question with a line '(A) …' for each of its options")
        yield of_files(
            record.source.root,
            [image],
            sample_id=str(PurePosixPath(image).with_suffix("")),
            text=question,
            task="choice",
            target=record.letter("label", len(options)),
            options=tuple(options),
            groups={"category": record.text("category")},
            cluster=image,
        )


VSTAR = OfficialSet(
    "vstar",
    ("test",),
    "answers",
    "multiple choice about small things (Wu and Xie 2024)",
    ORIGIN,
    _files,
    _read,
)
