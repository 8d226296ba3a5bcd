"""GQA: compositional questions about photographs, one short answer each.

Files: ``SPLIT_questions.json`` (or in ``questions/``), an object of question id to ``{question,
imageId, answer, types: {structural, semantic, detailed}, …}``, and ``images/IMAGEID.jpg``. The
full training split is a folder ``train_all_questions/`` of such files. The id of a sample is its
question's; its cluster the picture. Test and challenge splits have no public answers.

Source: Hudson & Manning, CVPR 2019; https://cs.stanford.edu/people/dorarad/gqa/download.html.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.data.layout import check_official, first_there, root_of, split_of, unique
from viper.data.record import Record, check_name
from viper.data.sample import DatasetSpec, Finding, MediaFiles, Sample
from viper.data.source import SourceFile, brief

ORIGIN = "https://cs.stanford.edu/people/dorarad/gqa/download.html (questions1.2.zip)"
PICTURES = "https://cs.stanford.edu/people/dorarad/gqa/download.html (images.zip)"

KEPT = ("question", "imageId", "answer", "types")
TYPES = ("structural", "semantic", "detailed")


@dataclass(frozen=True)
class Gqa:
    """Data set GQA; see the module."""

    name: str = "gqa"
    splits: tuple[str, ...] = (
        "testdev_balanced",
        "testdev_all",
        "val_balanced",
        "val_all",
        "train_balanced",
        "train_all",
    )
    metric: str = "gqa"
    summary: str = "questions about photographs (Hudson & Manning 2019)"

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return one sample per question, in the order of the files."""
        sources = _sources(root_of(self, spec), split_of(self, spec))
        return unique((s for source in sources for s in _of_file(source)), sources[0])

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Check questions, samples and pictures."""
        sources = _sources(root_of(self, spec), split_of(self, spec))
        return check_official(sources, lambda: self.samples(spec), PICTURES)


def gqa_groups(record: Record) -> dict[str, str]:
    """Return the groups of GQA's report, read from the field ``types``.

    Raises:
        DataError: a type is off.
    """
    types = record.record("types")
    return {name: types.text(name) for name in TYPES if types.values.get(name) is not None}


def _sources(root: Path, split: str) -> list[SourceFile]:
    name = f"{split}_questions"
    folder = first_there(root, (name, f"questions/{name}"))
    parts = sorted((root / folder).glob(f"{name}_*.json")) if (root / folder).is_dir() else []
    if parts:
        return [SourceFile(root, f"{folder}/{part.name}", ORIGIN) for part in parts]
    return [SourceFile(root, first_there(root, (f"{name}.json", f"questions/{name}.json")), ORIGIN)]


def _of_file(source: SourceFile) -> Iterator[Sample]:
    questions = Record.of(source.read_json(_drop_unused), source, "")
    for question_id, value in questions.values.items():
        yield _sample(question_id, Record.of(value, source, f" question {brief(question_id)}"))


def _drop_unused(value: dict[str, Any]) -> dict[str, Any]:
    """Drop programs and annotations of a question while the file is read."""
    if "question" in value and "imageId" in value:
        return {key: value[key] for key in KEPT if key in value}
    return value


def _sample(question_id: str, record: Record) -> Sample:
    image = check_name(record.name("imageId"), record, "imageId")
    name = f"images/{image}.jpg"
    return Sample(
        question_id,
        record.text("question"),
        task="question",
        media="image",
        target=record.text("answer"),
        load=MediaFiles(record.source.root, (name,)),
        groups=gqa_groups(record),
        cluster=image,
        files=(name,),
    )
