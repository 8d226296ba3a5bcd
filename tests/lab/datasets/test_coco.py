"""Questions from boxes: exact truth, stable ids, and pictures held back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.data import miniature
from tests.evaluate.official import real
from viper.data.sample import Sample
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction
from viper_lab.datasets.coco import plural
from viper_lab.datasets.held_back import is_held_back

Read = Callable[..., list[Sample]]


def questions(samples: list[Sample], kind: str) -> dict[str, object]:
    return {one.text: one.target for one in samples if one.groups["query_type"] == kind}


def test_counts_and_comparisons_are_those_of_the_boxes(tmp_path: Path, read: Read) -> None:
    samples = read("coco", miniature.coco(tmp_path))
    first = [one for one in samples if one.cluster == "5"]
    assert questions(first, "count") == {
        "How many people are there?": "2",
        "How many cats are there?": "1",
        "How many dogs are there?": "1",
    }
    compared = questions(first, "compare")
    assert len(compared) == 2 and set(compared.values()) <= {"yes", "no"}
    assert compared.get("Are there more people than cats?", "yes") == "yes"
    assert compared.get("Are there more cats than people?", "no") == "no"
    assert "5-count-1" in {one.sample_id for one in first}


def test_only_what_lies_clearly_apart_is_asked_for_its_side(tmp_path: Path, read: Read) -> None:
    samples = read("coco", miniature.coco(tmp_path), "all:left")
    ((text, answer),) = questions(samples, "left").items()
    assert (text, answer) in {
        ("Is the dog left of the cat?", "yes"),
        ("Is the cat left of the dog?", "no"),
    }


def test_the_largest_is_to_be_found_where_it_is_clearly_larger(tmp_path: Path, read: Read) -> None:
    (sample,) = read("coco", miniature.coco(tmp_path), "all:largest")
    assert (sample.text, sample.task, sample.target) == (
        "the largest person",
        "ground",
        (3, 3, 33, 27),
    )


def test_a_clear_color_is_asked_for_in_its_own_split_alone(tmp_path: Path, read: Read) -> None:
    root = miniature.coco(tmp_path)
    assert not questions(read("coco", root), "color")
    pixels = np.full((30, 40, 3), 128, np.uint8)
    pixels[2:22, 1:11] = (220, 20, 20)  # the dog; the cat is half gray, half blue
    pixels[5:10, 25:35] = (20, 20, 220)
    Image.fromarray(pixels).save(root / "images" / "000000000005.jpg", quality=95)
    first = [one for one in read("coco", root, "all:color") if one.cluster == "5"]
    assert questions(first, "color") == {"What color is the dog?": "red"}


@pytest.mark.parametrize(
    ("box", "asked"),
    [([-30, 2, 10, 9], False), ([90, 2, 10, 9], False), ([2, 70, 9, 9], False),
     ([-5, -5, 20, 20], True), ([30, 20, 90, 90], True)],
)  # fmt: skip
def test_only_the_part_of_a_box_in_the_picture_has_a_color(
    tmp_path: Path, read: Read, box: list[int], asked: bool
) -> None:
    root = miniature.coco(tmp_path)
    file = root / "instances.json"
    document = json.loads(file.read_text("utf-8"))
    one = next(each for each in document["annotations"] if each["category_id"] == 16)
    one["bbox"] = box
    miniature.write_json(file, document)
    pixels = np.full((30, 40, 3), (220, 20, 20), np.uint8)
    Image.fromarray(pixels).save(root / "images" / "000000000008.jpg", quality=95)
    bird = questions(read("coco", root, "all:color"), "color").get("What color is the bird?")
    assert bird == ("red" if asked else None)


def test_a_crowd_leaves_its_category_out_of_the_picture(tmp_path: Path, read: Read) -> None:
    samples = read("coco", miniature.coco(tmp_path))
    second = [one for one in samples if one.cluster == "6"]
    assert second and not any("people" in one.text or "person" in one.text for one in second)


def test_half_of_what_is_asked_for_is_absent_and_goes_with_the_others(
    tmp_path: Path, read: Read
) -> None:
    samples = read("coco", miniature.coco(tmp_path), "all:exists")
    # two cats: dogs share both pictures with a cat, people one
    assert [(one.sample_id, one.target) for one in samples] == [
        ("9-exists-17", "yes"),
        ("9-exists-18", "no"),
    ]
    # birds share no picture with cats, so nothing about them is plausible
    assert not any("birds" in one.text for one in samples)


def test_the_official_layout_is_read(tmp_path: Path, read: Read) -> None:
    miniature.coco(tmp_path, "annotations/instances_val2017.json", "val2017")
    samples = read("coco", tmp_path)
    assert samples[0].files == ("val2017/000000000005.jpg",)


def test_the_parts_divide_the_pictures(tmp_path: Path, read: Read) -> None:
    root = real("photos/coco128")
    everything = {one.sample_id for one in read("coco", root)}
    rest, held = read("coco", root, "rest"), read("coco", root, "held")
    assert {one.sample_id for one in rest} | {one.sample_id for one in held} == everything
    assert all(is_held_back(one.cluster) for one in held)
    assert not any(is_held_back(one.cluster) for one in rest)
    counted = read("coco", root, "held:count")
    assert counted == [one for one in held if one.groups["query_type"] == "count"]


def test_real_photographs_have_as_many_absent_as_present_things(read: Read) -> None:
    answers = Counter(one.target for one in read("coco", real("photos/tiny_coco"), "all:exists"))
    assert answers["yes"] == answers["no"] > 100


@pytest.mark.parametrize(
    ("name", "expected"),
    [("person", "people"), ("bus", "buses"), ("wine glass", "wine glasses"), ("skis", "skis"),
     ("Platelets", "Platelets"), ("sheep", "sheep"), ("couch", "couches"), ("RBC", "RBCs")],
)  # fmt: skip
def test_plurals(name: str, expected: str) -> None:
    assert plural(name) == expected


def test_everyday_questions_have_accepted_answers_boxes_or_none(tmp_path: Path, read: Read) -> None:
    yes, box, several, unanswerable = read("everyday", miniature.everyday(tmp_path))
    assert yes.target == ("yes", "yes it is")
    assert yes.files == ("coco128/images/000000000005.jpg",)
    assert (box.task, box.target) == ("ground", (1, 2, 11, 22))
    assert (several.task, several.target[1]) == ("tag", ("dog", (3, 3, 33, 27)))
    assert unanswerable.groups == {"query_type": "unanswerable"}
    score = metric("mixed").score
    assert score(unanswerable, None).value == 1
    assert score(unanswerable, Prediction("Rex")).value == 0
    assert score(yes, None).value == 0


def test_the_real_everyday_questions_are_read(read: Read) -> None:
    samples = read("everyday", real("photos/everyday.jsonl").parent)
    assert len(samples) > 100
    assert any(one.groups["query_type"] == "unanswerable" for one in samples)
