"""OK-VQA: questions about photographs that need outside knowledge; ten people answered each.

Files: ``OpenEnded_mscoco_SPLIT_questions.json`` (``questions``, a list of ``{question_id, image_id,
question}``), ``mscoco_SPLIT_annotations.json`` (``annotations``, a list of ``{question_id,
question_type, answers: [{answer}, …]}``; ``question_types`` names the types) and
``SPLIT/COCO_SPLIT_%012d.jpg``. The id of a sample is its question's, its cluster the picture, its
target all ten answers as the official scorer reads them.

Source: Marino et al., CVPR 2019; https://okvqa.allenai.org/download.html.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from viper.data.layout import OfficialSet, of_files
from viper.data.sample import Sample
from viper.data.source import Record, SourceFile

ORIGIN = "https://okvqa.allenai.org/download.html"
PICTURES = "https://cocodataset.org/#download (2014 Val images, 2014 Train images)"

# People who answered each question; the official score compares with all of them.
ANSWERS = 10


def _files(root: Path, split: str) -> list[SourceFile]:
    names = (f"OpenEnded_mscoco_{split}_questions.json", f"mscoco_{split}_annotations.json")
    return [SourceFile(root, name, ORIGIN) for name in names]


def _read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    questions, answers = (Record.of(source.read_json(), source, "") for source in sources)
    names = answers.values.get("question_types")
    kinds = names if isinstance(names, Mapping) else {}
    by_id = {each.whole("question_id"): each for each in answers.records("annotations")}
    for question in questions.records("questions"):
        annotation = by_id.get(question.whole("question_id"))
        if annotation is None:
            raise question.wrong("question_id", f"one that {answers.source.name} answers")
        given = tuple(answer.text("answer") for answer in annotation.records("answers"))
        if len(given) != ANSWERS:
            raise annotation.wrong("answers", f"{ANSWERS} answers")
        groups = {}
        if "question_type" in annotation.values:
            kind = annotation.text("question_type")
            groups["question_type"] = str(kinds.get(kind, kind))
        image = question.whole("image_id")
        if image < 0:
            raise question.wrong("image_id", "the number of a picture")
        yield of_files(
            question.source.root,
            [f"{split}/COCO_{split}_{image:012d}.jpg"],
            sample_id=str(question.whole("question_id")),
            text=question.text("question"),
            task="question",
            target=given,
            groups=groups,
            cluster=str(image),
        )


OKVQA = OfficialSet(
    "okvqa",
    ("val2014", "train2014"),
    "okvqa",
    "questions that need outside knowledge (Marino et al. 2019)",
    PICTURES,
    _files,
    _read,
)
