"""The part ``detector`` of ``viper lab reproduce photographs``, and the plain loop beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.evaluate.official import real
from tests.models.vision.onnx_graphs import NAMES, Graph, plain
from viper.errors import UsageError
from viper.models.media import read_picture
from viper.models.vision.detector_onnx import OnnxDetector
from viper_lab.photographs import detector
from viper_lab.photographs.job import DEVELOPMENT, ELSEWHERE, PhotographJob

NAMED = (("names", str(dict(enumerate(NAMES)))),)


def job_of(folder: Path, family: str = "yolox") -> PhotographJob:
    """A job on two folders of one picture each, whose box a tiny model finds."""
    (folder / "models").mkdir()
    Graph(family, metadata=NAMED).write(folder / "models" / "tiny.onnx")
    for name in (DEVELOPMENT, ELSEWHERE):
        images = folder / name / "images"
        images.mkdir(parents=True)
        Image.fromarray(plain()).save(images / "1.png")
        box = {"id": 1, "image_id": 1, "category_id": 7, "bbox": [16, 32, 64, 64]}
        box |= {"iscrowd": 0, "area": 4096}
        document: dict[str, Any] = {
            "images": [{"id": 1, "file_name": "1.png", "width": 192, "height": 144}],
            "categories": [{"id": 7, "name": "person"}, {"id": 8, "name": "cat"}],
            "annotations": [box],
        }
        (folder / name / "instances.json").write_text(json.dumps(document))
    return PhotographJob(folder, folder / "out")


def test_both_find_the_box_and_a_second_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tmp_path)
    measured = detector.measure(job)
    assert [row.figure.mean for row in measured.rows] == pytest.approx([1.0] * 4)
    assert [claim.holds for claim in measured.claims] == [True, True]
    monkeypatch.setattr(detector, "of_backend", None)  # nothing is computed again
    assert detector.measure(job) == measured


def test_a_backend_that_finds_other_boxes_fails_the_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detector, "of_backend", lambda backend, picture: [(2, (0, 0, 9, 9), 0.9)])
    measured = detector.measure(job_of(tmp_path))
    assert [claim.holds for claim in measured.claims] == [False, False]


def test_a_model_of_another_family_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="decodes yolox, not yolo"):
        detector.measure(job_of(tmp_path, "yolo_columns"))


def test_the_loop_finds_the_same_boxes_in_a_photograph(tmp_path: Path) -> None:
    job = PhotographJob(real("models").parent, tmp_path)
    source = job.profile().document.roles["detector"].model or ""
    picture = read_picture(real("photos/coco128/images/000000000025.jpg"))
    ours = sorted(detector.of_backend(OnnxDetector.from_pretrained(source), picture))
    loops = sorted(detector.PlainLoop(Path(source)).found(picture))
    assert [index for index, *_ in ours] == [index for index, *_ in loops]
    np.testing.assert_allclose([box for _, box, _ in ours], [box for _, box, _ in loops], atol=0.01)
