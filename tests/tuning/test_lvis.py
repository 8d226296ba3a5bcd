"""LVIS from files in its official layout, whole and broken."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tests.data.lvis_files import an_annotation, an_image, lvis, write_lvis
from viper.errors import DataError, MediaError, UsageError
from viper.tuning.data_collection import collect_annotated
from viper.tuning.lvis import CategoryNames, Lvis
from viper.tuning.training_data import AnnotatedStore, ConceptQuery


@pytest.fixture
def store(tmp_path):
    return Lvis(write_lvis(tmp_path / "lvis"))


def test_a_picture_comes_with_all_its_annotations(store):
    assert isinstance(store, AnnotatedStore)
    one, two, *rest = sorted(store.samples("mug", 9), key=lambda each: each.picture_id)
    assert [one.picture_id, two.picture_id, *[r.picture_id for r in rest]] == [
        "lvis:train:11",
        "lvis:train:12",
        "lvis:train:13",
    ]
    assert [thing.labels for thing in one.things] == [("mug",), ("teacup", "cup for tea")]
    assert one.positives == (0,) and one.things[0].box == (2, 1, 6, 4)
    assert one.absent == {"traffic light"} and not one.incomplete
    assert two.incomplete == {"mug"}
    assert two.absent == {"bow (weapon)", "bow (decorative ribbons)"}
    assert (one.pixels() == 11).all() and one.pixels().shape == (8, 10, 3)


def test_boxes_are_cut_to_the_picture_and_those_outside_it_dropped(store):
    by_id = {each.picture_id[-2:]: each for each in store.samples("mug", 9)}
    assert by_id["13"].things[0].box == (0, 5, 10, 8)
    assert [thing.labels for thing in by_id["12"].things] == [("mug",)]
    assert store.vocabulary()[1] == "traffic light"
    assert store.samples("traffic light", 9) == []


def test_masks_are_decoded_when_asked(store):
    by_id = {each.picture_id[-2:]: each.things[0].mask() for each in store.samples("mug", 9)}
    assert {number: mask.sum() for number, mask in by_id.items()} == {"11": 12, "12": 8, "13": 8}
    assert by_id["11"][1:4, 2:6].all() and by_id["12"][0:4, 1:3].all()


def test_pictures_that_are_not_there_are_passed_over(tmp_path):
    root = write_lvis(tmp_path / "lvis", missing=(11, 13, 14))
    store = Lvis(root)
    assert [each.picture_id for each in store.samples("mug", 9)] == ["lvis:train:12"]
    (root / "train2017" / "000000000012.jpg").unlink()
    with pytest.raises(DataError, match=r"no such picture, nor any other of 4 of 'mug'.*2017 Tr"):
        store.samples("mug", 9)


def test_completely_annotated_pictures_come_first_and_the_seed_decides(store):
    orders = {tuple(p.picture_id[-2:] for p in store.samples("mug", 9, seed=s)) for s in range(8)}
    assert orders == {("11", "13", "12"), ("13", "11", "12")}
    again = [[p.picture_id for p in store.samples("mug", 2, seed=3)] for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Mugs", "mug"),
        ("TRAFFIC-light", "traffic light"),
        ("stoplights", "traffic light"),
        ("cup for tea", "teacup"),
        ("bow (weapon)", "bow (weapon)"),
        ("bow_(weapon)", "bow (weapon)"),
    ],
)
def test_categories_by_what_they_are_called(store, said, name):
    assert store.names_of(said)[0] == name


def test_names_that_nothing_or_several_answer_to(store):
    assert store.names_of("yeti") == () and store.samples("yeti", 3) == []
    with pytest.raises(UsageError, match=r"'bows' may mean 'bow_\(weapon\)', 'bow_\(dec"):
        store.samples("bows", 3)


def test_the_more_literal_reading_of_a_name_wins():
    names = CategoryNames(
        {
            1: ("glasses", "spectacles"),
            2: ("glass_(drink_container)", "drinking glass"),
            3: ("mirror", "glass"),
        }
    )
    assert names.find("glasses") == 1
    assert names.find("glass") == 3
    assert names.find("drinking glasses") == 2


def test_negatives_are_pictures_where_the_concept_was_looked_for(tmp_path):
    values = lvis()
    values["annotations"].append(an_annotation(7, 14, 3))
    values["images"][3]["neg_category_ids"] = [1]
    values["annotations"] = [a for a in values["annotations"] if a["id"] != 5]
    store = Lvis(write_lvis(tmp_path / "l", values, missing=()))
    got = collect_annotated(ConceptQuery("mug", ("teacup",)), store, limit=1, negatives=5, seed=1)
    assert [each.picture_id for each in got.negatives] == ["lvis:train:14"]


def test_a_picture_of_another_size_is_refused(store, tmp_path):
    path = tmp_path / "lvis" / "train2017" / "000000000011.jpg"
    Image.fromarray(np.zeros((10, 8, 3), np.uint8)).save(path, format="PNG")
    (wrong,) = [each for each in store.samples("mug", 9) if each.picture_id.endswith("11")]
    with pytest.raises(DataError, match="has 8 x 10 pixels where its annotations say 10 x 8"):
        wrong.pixels()
    path.write_bytes(b"no picture")
    with pytest.raises(MediaError, match="is no picture"):
        wrong.pixels()


def test_a_broken_outline_is_the_file_s(tmp_path):
    values = lvis()
    values["annotations"][0]["segmentation"] = [[1, 2, 3]]
    store = Lvis(write_lvis(tmp_path / "lvis", values))
    (one,) = [each for each in store.samples("mug", 9) if each.picture_id.endswith("11")]
    with pytest.raises(DataError, match=r"annotation 1: a polygon is no list.*lvisdataset"):
        one.things[0].mask()


def with_(**members):
    return {**lvis(), **members}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], r"is \[\]; expected an object"),
        ({}, "has no categories"),
        (with_(images={"a": 1}), "images: is no list"),
        (with_(images=[7]), r"images\[0\]: is 7"),
        (with_(annotations=[an_annotation(1, 99, 1)]), "is of picture 99 and category 1"),
        (with_(annotations=[an_annotation(1, 11, 99)]), "is of picture 11 and category 99"),
        (with_(annotations=[an_annotation(1, 11, 1)] * 2), "'id' is 1; expected an id"),
        (with_(annotations=[an_annotation(2**64, 11, 1)]), "'id' is 18446744073709551616"),
        (with_(annotations=[an_annotation(1, 11, 1, bbox=[0, 0, -1, 2])]), "'bbox' is"),
        (with_(annotations=[an_annotation(1, 11, 1, bbox=[0, 0, 1e300, 2])]), "'bbox' is"),
        (with_(annotations=[an_annotation(1, 11, 1, bbox="x")]), "'bbox' is 'x'"),
        (with_(annotations=[an_annotation(1, 11, 1, segmentation=5)]), "'segmentation' is 5"),
        (with_(images=[{**an_image(11, [], []), "width": 10**6, "height": 10**6}]), "'width'"),
        (with_(images=[{**an_image(11, [], []), "height": 0}]), "a size of 1 to"),
        (with_(images=[an_image(11, ["x"], [])]), "'neg_category_ids'"),
        (with_(images=[{**an_image(11, [], []), "coco_url": "http://h/../../e"}]), "coco_url"),
        (with_(images=[{**an_image(11, [], []), "coco_url": "http://h/a/%2e%2e"}]), "coco_url"),
        (with_(images=[{**an_image(11, [], []), "coco_url": "http://[h/a/b"}]), "coco_url"),
        (with_(categories=[{"id": 1, "name": "__"}]), "'name' is '__'"),
        (with_(categories=[{"id": 1}]), r"categories\[0\]: has no 'name'"),
        (with_(categories=[{"id": 1, "name": "\ud800"}]), "'name' is"),
        (with_(categories=[{"id": 1, "name": "a", "synonyms": 5}]), "'synonyms' is 5"),
    ],
)
def test_files_of_another_shape_are_refused_in_one_line(tmp_path, values, says):
    root = write_lvis(tmp_path / "lvis", values)
    with pytest.raises(DataError, match=says) as caught:
        Lvis(root)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_a_missing_file_is_named_with_its_origin(tmp_path):
    with pytest.raises(DataError, match="no such file; it comes from https://www.lvis"):
        Lvis(tmp_path)


def test_file_names_of_version_05_are_read(tmp_path):
    values = lvis()
    for image in values["images"]:
        image["file_name"] = f"train2017/{image['id']:012d}.jpg"
        del image["coco_url"]
    store = Lvis(write_lvis(tmp_path / "lvis", values))
    assert len(store.samples("mug", 9)) == 3


@pytest.mark.parametrize("text", ["", '{"images": [1 2]}', '{"images": ' + "[" * 200_000])
def test_what_is_no_json_is_refused(tmp_path, text):
    root = write_lvis(tmp_path / "lvis")
    (root / "annotations" / "lvis_v1_train.json").write_text(text)
    with pytest.raises(DataError, match="lvis_v1_train.json: .* expected JSON; get it again"):
        Lvis(root)
