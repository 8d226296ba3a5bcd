"""Average precision is COCO's: perfect boxes have 1, misses and false boxes cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from viper.errors import DataError
from viper_lab.photographs.average_precision import average_precision

BOXES = {1: (10.0, 10.0, 50.0, 60.0), 2: (20.0, 30.0, 90.0, 70.0)}


@pytest.fixture
def instances(tmp_path: Path) -> Path:
    path = tmp_path / "instances.json"
    annotations = [
        {"id": 7 * number, "image_id": number, "category_id": 3, "iscrowd": 0}
        | {"bbox": [x0, y0, x1 - x0, y1 - y0], "area": (x1 - x0) * (y1 - y0)}
        for number, (x0, y0, x1, y1) in BOXES.items()
    ]
    images = [{"id": n, "file_name": f"{n}.png", "width": 100, "height": 80} for n in BOXES]
    categories = [{"id": 3, "name": "cup"}, {"id": 4, "name": "dog"}]
    document = {"images": images, "annotations": annotations, "categories": categories}
    path.write_text(json.dumps(document))
    return path


def test_perfect_boxes_have_an_average_precision_of_1(instances: Path) -> None:
    found = [(number, 3, box, 0.9) for number, box in BOXES.items()]
    assert average_precision(instances, found) == pytest.approx(1)


def test_a_missed_picture_counts_unless_it_is_left_out(
    instances: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [(1, 3, BOXES[1], 0.9)]
    assert average_precision(instances, found) == pytest.approx(0.505, abs=0.01)
    assert average_precision(instances, found, [1]) == pytest.approx(1)
    assert not capsys.readouterr().out


def test_a_better_scored_false_box_costs(instances: Path) -> None:
    found = [(n, 3, box, 0.5) for n, box in BOXES.items()]
    false = [(1, 3, (60.0, 60.0, 70.0, 70.0), 0.9)]
    assert average_precision(instances, found + false) < 0.7


def test_no_boxes_or_no_file(instances: Path) -> None:
    assert average_precision(instances, []) == 0
    with pytest.raises(DataError, match="no such file"):
        average_precision(instances.with_name("other.json"), [(1, 3, BOXES[1], 0.9)])
