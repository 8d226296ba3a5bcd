"""Concepts of an annotation file: what judges is never learned from, and answers follow boxes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.test_coco_store import coco
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec
from viper.errors import UsageError
from viper_lab.datasets.held_back import is_held_back
from viper_lab.papers.clova_concepts import Concepts

NUMBERS = range(1, 31)
HELD = {number for number in NUMBERS if is_held_back(number)}
THINGS: tuple[list[str], ...] = (
    ["person"], ["person", "person"], ["car"], ["car", "traffic light"], ["traffic light"], [],
)  # fmt: skip


def file_of(folder: Path, **more: Any) -> Path:
    return coco(folder, {number: THINGS[number % 6] for number in NUMBERS}, **more)


@pytest.fixture
def concepts(tmp_path: Path) -> Concepts:
    return Concepts.of(file_of(tmp_path), None, ["people", "car", "cars"])


def lines_of(concepts: Concepts, held_back: bool, folder: Path) -> list[dict[str, Any]]:
    text = concepts.questions(held_back, folder / "out" / f"{held_back}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_third_judges_by_the_ids_of_its_pictures(concepts: Concepts, tmp_path: Path) -> None:
    assert concepts.names == ("person", "car")
    assert concepts.held_back == {f"{number:012d}.jpg" for number in HELD}
    for is_held in (False, True):
        numbers = {int(line["media"][:-4]) for line in lines_of(concepts, is_held, tmp_path)}
        assert numbers and numbers <= (HELD if is_held else set(NUMBERS) - HELD)


def test_answers_are_those_of_the_boxes(concepts: Concepts, tmp_path: Path) -> None:
    asked = [line for is_held in (False, True) for line in lines_of(concepts, is_held, tmp_path)]
    kinds = set()
    for line in asked:
        number, name, *rest = line["id"].split("-")
        things = THINGS[int(number) % 6]
        if rest:
            assert things.count(name) == 1 and line["task"] == "ground"
            place = things.index(name)
            assert line["answer"] == [2 + 20 * place, 4, 18 + 20 * place, 34]
        else:
            assert line["query"] == f"is there any {name} in the picture?"
            assert line["answer"] == ("yes" if name in things else "no")
        kinds.add((name, line["answer"] if not rest else "box"))
    assert kinds == {(name, kind) for name in ("person", "car") for kind in ("yes", "no", "box")}


def test_as_many_pictures_without_a_concept_are_asked_as_with_it(concepts: Concepts) -> None:
    for name in concepts.names:
        shows = [shows for _, shows in concepts.asked(name, held_back=False)]
        assert shows.count(True) == shows.count(False) > 0


def test_the_questions_are_data_sets_with_their_pictures(
    concepts: Concepts, tmp_path: Path
) -> None:
    subject = concepts.subject(tmp_path / "questions")
    assert subject.name == "person, car" and subject.set_name != subject.stream_set
    for name in (subject.set_name, subject.stream_set):
        samples = data_set(name).samples(DatasetSpec(subject.root))
        (first, *_) = samples[0].load()
        assert first.is_file()


def test_a_crowd_is_not_to_be_found(tmp_path: Path) -> None:
    crowds = {str(number): {"iscrowd": 1} for number in range(1, 60, 3)}
    concepts = Concepts.of(file_of(tmp_path, **crowds), None, ["person"])
    incomplete = {
        each.picture_id for part in concepts.pictures.values() for each in part if each.incomplete
    }
    lines = [line for is_held in (False, True) for line in lines_of(concepts, is_held, tmp_path)]
    boxes = {
        f"coco:{int(line['id'].split('-')[0])}" for line in lines if line["id"].endswith("box")
    }
    assert incomplete and not boxes & incomplete


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        ({number: ["car"] for number in NUMBERS}, "no 'person' among the 21 pictures to learn"),
        ({number: ["car" if number in HELD else "person"] for number in NUMBERS},
         "no 'person' among the 9 pictures that judge"),
    ],
)  # fmt: skip
def test_a_concept_needs_pictures_in_both_parts(
    tmp_path: Path, shown: dict[int, list[str]], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        Concepts.of(coco(tmp_path, shown), None, ["person"])
