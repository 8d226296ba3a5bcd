"""Labels that the kept programs doubt, and exports of their answers for labelling tools.

A case is suspected if programs that were chosen without it agree with each other and not with its
label. The order is by their agreement: the surest suspicion first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from viper.errors import UsageError
from viper.evaluate.sample_result import Prediction
from viper.jobs.cases import Label, words_of
from viper.jobs.job import JobRecord, JudgedCase
from viper.jobs.outcomes import Outcomes
from viper.models.media import media_from
from viper.storage.files import write_file
from viper.storage.json_lines import dumps

Format = Literal["coco", "yolo", "label-studio"]


@dataclass(frozen=True)
class Suspect:
    """A label, and the answer of the job's program to its case."""

    label: Label
    judged: JudgedCase
    answer: Prediction

    @property
    def words(self) -> str:
        return words_of(self.answer, self.label)


def suspects(record: JobRecord, labels: Sequence[Label], outcomes: Outcomes) -> list[Suspect]:
    """Return the cases whose label the programs contradict, the surest suspicion first.

    Args:
        labels: those of the fit, in its order.
    """
    answers = outcomes.answers(record.kept[0].candidate.id, labels)
    found = []
    for label, judged, answer in zip(labels, record.judged, answers, strict=True):
        if not judged.right and judged.agreeing > 0 and answer is not None:
            found.append(Suspect(label, judged, answer))
    return sorted(found, key=lambda each: -each.judged.agreeing)


def export(path: Path, form: Format, found: Sequence[Suspect], query: str) -> None:
    """Write the answers about suspected cases, each with its confidence.

    Boxes are of the answer ``query``. A YOLO folder gets a text file for each picture, and its
    ``classes.txt``; lines are class, centre, size as shares, confidence.

    Raises:
        UsageError: the answers are no boxes, and the format holds nothing else.
    """
    boxes = [(each, each.answer.box) for each in found if each.answer.box is not None]
    if form != "label-studio" and len(boxes) < len(found):
        raise UsageError(f"{form} files hold boxes, and these answers are none; use label-studio")
    sizes = [media_from(each.label.media).images[0].shape[:2] for each in found]
    if form == "yolo":
        for (each, box), (height, width) in zip(boxes, sizes, strict=True):
            x, y, w, h = _whole(box)
            shares = (x + w / 2) / width, (y + h / 2) / height, w / width, h / height
            line = " ".join(f"{share:.6f}" for share in (*shares, each.judged.confidence))
            write_file(path / f"{Path(each.label.name).stem}.txt", f"0 {line}\n")
        write_file(path / "classes.txt", f"{query}\n")
    elif form == "coco":
        write_file(path, dumps(_coco(boxes, sizes, query)) + "\n")
    else:
        pairs = zip(found, sizes, strict=True)
        write_file(path, dumps([_task(each, *size) for each, size in pairs]) + "\n")


def _whole(box: Sequence[float]) -> tuple[float, float, float, float]:
    """Return left, top, width, height."""
    return box[0], box[1], box[2] - box[0], box[3] - box[1]


def _coco(boxes: Sequence[Any], sizes: Sequence[Any], query: str) -> Mapping[str, Any]:
    images, annotations = [], []
    for number, ((each, box), (height, width)) in enumerate(zip(boxes, sizes, strict=True), 1):
        images.append(
            {"id": number, "file_name": each.label.media[0], "width": width, "height": height}
        )
        _, _, w, h = whole = _whole(box)
        of_image = {"id": number, "image_id": number, "category_id": 1, "iscrowd": 0}
        annotations.append(
            {**of_image, "bbox": whole, "area": w * h, "score": each.judged.confidence}
        )
    category = {"id": 1, "name": query}
    return {"images": images, "annotations": annotations, "categories": [category]}


def _task(each: Suspect, height: int, width: int) -> Mapping[str, Any]:
    """Return a task of Label Studio with the label and the answer; boxes are in percent there."""

    def result(words: str, box: Sequence[float] | None) -> Mapping[str, Any]:
        common = {"from_name": "label", "to_name": "image"}
        if box is None:
            return {**common, "type": "choices", "value": {"choices": [words]}}
        x, y, w, h = _whole(box)
        sides = {"x": 100 * x / width, "y": 100 * y / height}
        sides |= {"width": 100 * w / width, "height": 100 * h / height}
        value = {**sides, "rectanglelabels": [each.label.query]}
        size = {"original_width": width, "original_height": height}
        return {**common, **size, "type": "rectanglelabels", "value": value}

    own = each.label.answer if each.label.task == "ground" else None
    prediction = {"result": [result(each.words, each.answer.box)]}
    return {
        "data": {"image": each.label.media[0]},
        "annotations": [{"result": [result(each.label.words, own)]}],
        "predictions": [{**prediction, "score": each.judged.confidence}],
    }
