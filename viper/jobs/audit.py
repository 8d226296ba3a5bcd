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
from viper.jobs.cases import Label
from viper.jobs.job import JobRecord, JudgedCase
from viper.jobs.likeness import first_picture
from viper.models.media import media_from
from viper.schema import PixelBox
from viper.storage.files import write_file
from viper.storage.json_lines import dumps

Format = Literal["coco", "yolo", "label-studio"]


@dataclass(frozen=True)
class Suspect:
    """A label, and the answer of programs that were chosen without it."""

    label: Label
    judged: JudgedCase

    @property
    def box(self) -> PixelBox | None:
        """Return the answer if it is a box, in pixels from the top-left corner."""
        if self.label.task != "ground" or self.judged.answer == "none":
            return None
        left, top, right, bottom = map(float, self.judged.answer.split(","))
        return left, top, right, bottom


def suspects(record: JobRecord, labels: Sequence[Label]) -> list[Suspect]:
    """Return the cases whose label the programs contradict, the surest suspicion first."""
    by_case = {label.case: label for label in labels}
    found = [
        Suspect(by_case[judged.case], judged)
        for judged in record.judged
        if not judged.right and judged.agreeing > 0 and judged.case in by_case
    ]
    return sorted(found, key=lambda each: -each.judged.agreeing)


def export(path: Path, form: Format, found: Sequence[Suspect]) -> None:
    """Write the answers about suspected cases, each with its confidence.

    A box belongs to the class of its question. A YOLO folder gets a text file for each picture, and
    its ``classes.txt``; lines are class, centre, size as shares, confidence.

    Raises:
        UsageError: the answers are no boxes, and the format holds nothing else; or two pictures
            have the same name, by which YOLO knows them.
    """
    boxes = [(each, each.box) for each in found if each.box is not None]
    if form != "label-studio" and len(boxes) < len(found):
        raise UsageError(f"{form} files hold boxes, and these answers are none; use label-studio")
    sizes = [first_picture(media_from(each.label.media)).shape[:2] for each in found]
    classes = list(dict.fromkeys(each.label.query for each in found))
    if form == "yolo":
        lines: dict[str, list[str]] = {}
        media = {Path(each.label.name).stem: each.label.media[0] for each, _ in boxes}
        for (each, box), (height, width) in zip(boxes, sizes, strict=True):
            stem = Path(each.label.name).stem
            if media[stem] != each.label.media[0]:
                raise UsageError(
                    f"{media[stem]} and {each.label.media[0]} have one name; YOLO files are named "
                    "like their pictures: export one folder at a time"
                )
            x, y, w, h = _whole(box)
            shares = (x + w / 2) / width, (y + h / 2) / height, w / width, h / height
            line = " ".join(f"{share:.6f}" for share in (*shares, each.judged.confidence))
            lines.setdefault(stem, []).append(f"{classes.index(each.label.query)} {line}\n")
        for stem, of_picture in lines.items():
            write_file(path / f"{stem}.txt", "".join(of_picture))
        write_file(path / "classes.txt", "".join(f"{name}\n" for name in classes))
    elif form == "coco":
        write_file(path, dumps(_coco(boxes, sizes, classes)) + "\n")
    else:
        pairs = zip(found, sizes, strict=True)
        write_file(path, dumps([_task(each, *size) for each, size in pairs]) + "\n")


def _whole(box: Sequence[float]) -> tuple[float, float, float, float]:
    """Return left, top, width, height."""
    return box[0], box[1], box[2] - box[0], box[3] - box[1]


def _coco(boxes: Sequence[Any], sizes: Sequence[Any], classes: Sequence[str]) -> Mapping[str, Any]:
    images, annotations = [], []
    for number, ((each, box), (height, width)) in enumerate(zip(boxes, sizes, strict=True), 1):
        images.append(
            {"id": number, "file_name": each.label.media[0], "width": width, "height": height}
        )
        _, _, w, h = whole = _whole(box)
        of_image = {"id": number, "image_id": number, "iscrowd": 0}
        of_image["category_id"] = 1 + classes.index(each.label.query)
        annotations.append(
            {**of_image, "bbox": whole, "area": w * h, "score": each.judged.confidence}
        )
    categories = [{"id": number, "name": name} for number, name in enumerate(classes, 1)]
    return {"images": images, "annotations": annotations, "categories": categories}


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
    prediction = {"result": [result(each.judged.answer, each.box)]}
    return {
        "data": {"image": each.label.media[0]},
        "annotations": [{"result": [result(each.label.words, own)]}],
        "predictions": [{**prediction, "score": each.judged.confidence}],
    }
