"""GQA: compositional questions about photographs, one short answer each.

Files: ``SPLIT_questions.json`` (or in ``questions/``), an object of question id to ``{question,
imageId, answer, types: {structural, semantic, detailed}, …}``, and ``images/IMAGEID.jpg``. The
full training split is a folder ``train_all_questions/`` of such files. The id of a sample is its
question's; its cluster the picture. Test and challenge splits have no public answers.

Source: Hudson & Manning, CVPR 2019; https://cs.stanford.edu/people/dorarad/gqa/download.html.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from viper.data.layout import OfficialSet, first_there, of_files
from viper.data.sample import Sample
from viper.data.source import Record, SourceFile, brief, check_name

ORIGIN = "https://cs.stanford.edu/people/dorarad/gqa/download.html (questions1.2.zip)"
PICTURES = "https://cs.stanford.edu/people/dorarad/gqa/download.html (images.zip)"

KEPT = ("question", "imageId", "answer", "types")
TYPES = ("structural", "semantic", "detailed")


def gqa_groups(record: Record) -> dict[str, str]:
    """Return the groups of GQA's report, read from the field ``types``.

    Raises:
        DataError: a type is off.
    """
    types = record.record("types")
    return {name: types.text(name) for name in TYPES if types.values.get(name) is not None}


def _files(root: Path, split: str) -> list[SourceFile]:
    name = f"{split}_questions"
    folder = first_there(root, (name, f"questions/{name}"))
    parts = [f"{folder}/{path.name}" for path in sorted((root / folder).glob(f"{name}_*.json"))]
    parts = parts or [first_there(root, (f"{name}.json", f"questions/{name}.json"))]
    return [SourceFile(root, part, ORIGIN) for part in parts]


def _read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    for source in sources:
        questions = Record.of(source.read_json(_drop_unused), source, "")
        for question_id, value in questions.values.items():
            record = Record.of(value, source, f" question {brief(question_id)}")
            image = check_name(record.name("imageId"), record, "imageId")
            yield of_files(
                source.root,
                [f"images/{image}.jpg"],
                sample_id=question_id,
                text=record.text("question"),
                task="question",
                target=record.text("answer"),
                groups=gqa_groups(record),
                cluster=image,
            )


def _drop_unused(value: dict[str, Any]) -> dict[str, Any]:
    """Drop programs and annotations of a question while the file is read: most of its bytes."""
    if "question" in value and "imageId" in value:
        return {key: value[key] for key in KEPT if key in value}
    return value


GQA = OfficialSet(
    "gqa",
    ("testdev_balanced", "testdev_all", "val_balanced", "val_all", "train_balanced", "train_all"),
    "gqa",
    "questions about photographs (Hudson & Manning 2019)",
    PICTURES,
    _files,
    _read,
)
