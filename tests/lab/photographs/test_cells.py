"""Part ``cells``: which cells are marked, what is counted, and claims that can fail."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.evaluate.official import real
from tests.strategies.bench import Bench
from tests.tools.test_alike import SPOTS, around, smear
from viper.errors import DataError
from viper_lab.datasets.held_back import is_held_back
from viper_lab.photographs.cells import DEVELOPMENT_MEAN, _measured, marked, measure
from viper_lab.photographs.job import PhotographJob

HELD = [number for number in range(1, 20) if is_held_back(number)][:2]


class Job(PhotographJob):
    def profile(self) -> Any:
        return SimpleNamespace(components=lambda: Bench([]).reasoner.components)


def job(tmp_path: Path, category: str = "RBC") -> Job:
    """Two smears of five cells each, one of which has no labelled cell."""
    folder = tmp_path / "data" / "bccd"
    (folder / "images").mkdir(parents=True)
    Image.fromarray(smear()).save(folder / "images" / "a.png")
    boxes = [[x, y, 28.0, 28.0] for x, y, *_ in map(around, SPOTS)]
    document = {
        "images": [
            {"id": number, "file_name": "a.png", "width": 240, "height": 160} for number in HELD
        ],
        "annotations": [
            {"id": each, "image_id": HELD[0], "category_id": 1, "bbox": box, "area": 784.0}
            for each, box in enumerate(boxes, 1)
        ],
        "categories": [{"id": 1, "name": category}],
    }
    (folder / "instances.json").write_text(json.dumps(document), "utf-8")
    return Job(tmp_path / "data", tmp_path / "out")


def test_clear_cells_of_usual_size_are_marked() -> None:
    clear = [(50, 50, 90, 90), (100, 50, 142, 90), (150, 50, 191, 90)]
    small, cut = (20, 100, 30, 110), (0, 0, 40, 40)
    overlapping = [(100, 100, 140, 140), (120, 100, 160, 140)]
    assert set(marked([cut, *overlapping, small, *clear], (240, 160))) == set(clear)
    assert marked([cut, *overlapping], (240, 160))[-1] == cut
    assert marked([], (240, 160)) == []


def test_smears_are_counted_once(tmp_path: Path) -> None:
    here = job(tmp_path)
    first = measure(here)
    (line,) = (here.out / "cells" / "counts.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line)["found"] == 5
    assert [row.figure.mean for row in first.rows[:2]] == [pytest.approx(DEVELOPMENT_MEAN - 5), 0]
    assert "1 without red cells" in first.rows[0].note
    (here.data / "bccd" / "images" / "a.png").unlink()
    assert measure(here) == first


def test_annotations_without_red_cells_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no category rbc"):
        measure(job(tmp_path, "dog"))


@pytest.mark.parametrize(("error", "holds"), [(1, True), (9, False)])
def test_the_claim_can_fail(error: int, holds: bool) -> None:
    truth = np.random.default_rng(0).integers(5, 20, 60)
    counts = {"find_like": (truth + error).tolist()}
    (claim,) = _measured(truth.tolist(), counts, 60).claims
    assert claim.holds is holds


def test_the_development_mean_is_that_of_the_smears() -> None:
    document = json.loads((real("bccd") / "instances.json").read_text("utf-8"))
    (red,) = [each["id"] for each in document["categories"] if each["name"] == "RBC"]
    pictures = [each["id"] for each in document["images"] if not is_held_back(each["id"])]
    cells = [each for each in document["annotations"] if each["category_id"] == red]
    counted = sum(each["image_id"] in set(pictures) for each in cells)
    assert counted / len(pictures) == pytest.approx(DEVELOPMENT_MEAN, abs=0.005)
