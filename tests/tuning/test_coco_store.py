"""Annotations in COCO's form as a store of pictures to learn from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from viper.data.source import SourceFile
from viper.errors import DataError, UnknownNameError
from viper.profiles import load_profile
from viper.tuning.data_collection import collect_annotated
from viper.tuning.lvis import CocoStore
from viper.tuning.training_data import ConceptQuery
from viper.tuning.wiring import Data, open_sources

NAMES = ("person", "car", "traffic light")


def coco(folder: Path, shown: dict[int, list[str]], **more: Any) -> Path:
    """Write an annotation file with pictures beside it, each with these things in a row.

    Things of a kind have one color, on a gray that tells pictures apart.
    """
    (folder / "images").mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    for number, things in shown.items():
        name = f"{number:012d}.jpg"
        pixels = np.full((40, 60, 3), number % 256, np.uint8)
        for place, thing in enumerate(things):
            pixels[4:34, 2 + 20 * place : 18 + 20 * place, NAMES.index(thing)] = 220
        Image.fromarray(pixels).save(folder / "images" / name, quality=95)
        images.append({"id": number, "file_name": name, "width": 60, "height": 40})
        for place, thing in enumerate(things):
            box = {"bbox": [2 + 20 * place, 4, 16, 30], "iscrowd": 0}
            about = {"image_id": number, "category_id": 1 + NAMES.index(thing)}
            annotations.append({"id": 1 + len(annotations), **about, **box})
    for annotation in annotations:
        annotation.update(more.get(str(annotation["id"]), {}))
    categories = [{"id": 1 + place, "name": name} for place, name in enumerate(NAMES)]
    values = {"images": images, "annotations": annotations, "categories": categories}
    path = folder / "instances.json"
    path.write_text(json.dumps(values))
    return path


def store_of(path: Path, **more: Any) -> CocoStore:
    return CocoStore(SourceFile(path.parent, path.name), **more)


def test_what_has_no_box_is_absent_since_all_categories_were_looked_for(tmp_path: Path) -> None:
    store = store_of(coco(tmp_path, {7: ["person", "car"], 9: ["car"]}))
    (both,) = store.samples("people", 5)
    assert [thing.labels for thing in both.things] == [("person",), ("car",)]
    assert both.positives == (0,) and both.things[0].box == (2, 4, 18, 34)
    assert both.absent == {"traffic light"}
    assert both.pixels().shape == (40, 60, 3) and both.pixels()[20, 10, 0] > 190
    assert store.files == {"coco:7": "000000000007.jpg", "coco:9": "000000000009.jpg"}
    query = ConceptQuery("person", ("car",))
    assert [each.picture_id for each in collect_annotated(query, store, negatives=3).negatives] == [
        "coco:9"
    ]


def test_a_box_of_no_height_is_no_object_and_leaves_its_category_incomplete(tmp_path: Path) -> None:
    path = coco(tmp_path, {7: ["person", "car"]}, **{"1": {"bbox": [2, 4, 16, 0]}})
    (picture,) = store_of(path).samples("car", 5)
    assert [thing.labels for thing in picture.things] == [("car",)]
    assert picture.absent == {"traffic light"} and picture.incomplete == {"person"}
    negative = coco(tmp_path, {7: ["person"]}, **{"1": {"bbox": [2, 4, 16, -1]}})
    with pytest.raises(DataError, match="bbox"):
        store_of(negative)


def test_a_picture_whose_boxes_lie_outside_it_is_not_called_missing(tmp_path: Path) -> None:
    path = coco(tmp_path, {7: ["person"]}, **{"1": {"bbox": [90, 4, 16, 30]}})
    assert store_of(path).samples("person", 5) == []


def test_a_crowd_is_no_object_and_leaves_its_category_incomplete(tmp_path: Path) -> None:
    path = coco(tmp_path, {7: ["person", "person", "car"]}, **{"2": {"iscrowd": 1}})
    (picture,) = store_of(path).samples("person", 5)
    assert len(picture.things) == 2 and picture.positives == (0,)
    assert picture.incomplete == {"person"} and picture.absent == {"traffic light"}


def test_pictures_that_judge_are_not_drawn_from_store_or_folder(tmp_path: Path) -> None:
    path = coco(tmp_path, {7: ["person"], 9: ["person"], 11: ["person"]})
    profile = load_profile("embedded")
    judges = frozenset({"000000000009.jpg"})
    data = Data(str(path), None, str(tmp_path / "images"), leave_out=judges)
    components = profile.components()
    sources = open_sources(data, components, tmp_path / "state")
    assert sources.store is not None and sources.search is not None
    ids = {each.picture_id for each in sources.store.samples("person", 9)}
    assert ids == {"coco:instances:7", "coco:instances:11"}
    found = {str(each.origin["file"]) for each in sources.search.search("person", 9)}
    assert found == {"000000000007.jpg", "000000000011.jpg"}
    components.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "has no categories"),
        ("[]", "expected"),
        ('{"categories": [{"id": 1, "name": "car"}], "images": [{"id": 1, "width": 3, "height": 3}]'
         ', "annotations": []}', "file_name"),
    ],
)  # fmt: skip
def test_another_file_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=says) as refused:
        store_of(tmp_path / "a.json")
    assert "a.json" in str(refused.value) and "\n" not in str(refused.value)


def test_pictures_that_are_elsewhere_ask_for_their_folder(tmp_path: Path) -> None:
    store = store_of(coco(tmp_path, {7: ["person"]}), pictures=tmp_path / "nowhere")
    with pytest.raises(DataError, match="name their folder"):
        store.samples("person", 3)


def test_a_name_that_is_no_source_lists_what_is(tmp_path: Path) -> None:
    components = load_profile("embedded").components()
    with pytest.raises(UnknownNameError, match=r"FILE\.json"):
        open_sources(Data("instances.coco"), components, tmp_path)
    components.close()
