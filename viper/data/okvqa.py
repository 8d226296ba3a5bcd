"""OK-VQA: questions about photographs that need outside knowledge; ten people answered each.

Files: ``OpenEnded_mscoco_SPLIT_questions.json`` (``questions``, a list of ``{question_id, image_id,
question}``), ``mscoco_SPLIT_annotations.json`` (``annotations``, a list of ``{question_id,
question_type, answers: [{answer}, …]}``; ``question_types`` names the types) and
``SPLIT/COCO_SPLIT_%012d.jpg``. The id of a sample is its question's, its cluster the picture, its
target all ten answers as the official scorer reads them.

Source: Marino et al., CVPR 2019; https://okvqa.allenai.org/download.html.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from viper.data.layout import check_official, root_of, split_of, unique
from viper.data.record import Record
from viper.data.sample import DatasetSpec, Finding, MediaFiles, Sample
from viper.data.source import SourceFile

ORIGIN = "https://okvqa.allenai.org/download.html"
PICTURES = "https://cocodataset.org/#download (2014 Val images, 2014 Train images)"

ANSWERS = 10


@dataclass(frozen=True)
class OkVqa:
    """Data set OK-VQA; see the module."""

    name: str = "okvqa"
    splits: tuple[str, ...] = ("val2014", "train2014")
    metric: str = "okvqa"
    summary: str = "questions that need outside knowledge (Marino et al. 2019)"

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return one sample per question, in the order of the questions' file."""
        root, split = root_of(self, spec), split_of(self, spec)
        questions_file, answers_file = _sources(root, split)
        annotations = Record.of(answers_file.read_json(), answers_file, "")
        names = annotations.values.get("question_types")
        kinds = names if isinstance(names, Mapping) else {}
        by_id = {each.whole("question_id"): each for each in annotations.records("annotations")}

        def sample(question: Record) -> Sample:
            annotation = by_id.get(question.whole("question_id"))
            if annotation is None:
                raise question.wrong("question_id", f"one that {answers_file.name} answers")
            return _sample(question, annotation, kinds, split)

        questions = Record.of(questions_file.read_json(), questions_file, "").records("questions")
        return unique((sample(question) for question in questions), questions_file)

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Check questions, annotations, samples and pictures."""
        sources = _sources(root_of(self, spec), split_of(self, spec))
        return check_official(sources, lambda: self.samples(spec), PICTURES)


def _sources(root: Path, split: str) -> tuple[SourceFile, SourceFile]:
    return (
        SourceFile(root, f"OpenEnded_mscoco_{split}_questions.json", ORIGIN),
        SourceFile(root, f"mscoco_{split}_annotations.json", ORIGIN),
    )


def _sample(
    question: Record, annotation: Record, kinds: Mapping[str, object], split: str
) -> Sample:
    answers = tuple(answer.text("answer") for answer in annotation.records("answers"))
    if len(answers) != ANSWERS:
        raise annotation.wrong("answers", f"{ANSWERS} answers")
    groups = {}
    if "question_type" in annotation.values:
        kind = annotation.text("question_type")
        groups["question_type"] = str(kinds.get(kind, kind))
    image = question.whole("image_id")
    if image < 0:
        raise question.wrong("image_id", "the number of a picture")
    name = f"{split}/COCO_{split}_{image:012d}.jpg"
    return Sample(
        str(question.whole("question_id")),
        question.text("question"),
        task="question",
        media="image",
        target=answers,
        load=MediaFiles(question.source.root, (name,)),
        groups=groups,
        cluster=str(image),
        files=(name,),
    )
