"""Parts of the data: what is mined from is another split than what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from viper_lab.papers.method_runner import Subject
from viper_lab.papers.parts import KnowledgePart, Part, SetPart, WorldPart

PARTS: list[Part] = [
    WorldPart("referring", "test"),
    SetPart("gqa", Path("gqa"), "testdev", "train"),
    KnowledgePart(Path("folder"), 3, "test"),
    KnowledgePart(Path("folder"), 3, "test").unanswerable,
]


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_shots_are_of_the_training_split_under_the_same_seed(part: Part, seed: int) -> None:
    asked, shots = part.evaluation(seed, 9), part.shots(seed, 5)
    assert str(asked.spec.split).startswith("test") and asked.limit == 9
    assert str(shots.spec.split).partition(":")[0] == "train" and shots.limit == 5
    assert shots.set_name == asked.set_name and shots.seeds == asked.seeds == (seed,)
    assert shots.spec.seed == seed and shots.spec.root == asked.spec.root


def test_shots_of_a_family_are_of_that_family() -> None:
    assert WorldPart("video", "val").shots(1, 5).spec.split == "train:video"


def test_a_stream_is_of_its_own_split() -> None:
    subject = Subject("new", "world-reserved", "test:new", "train:new")
    assert subject.evaluation(2, 3).spec.split == "test:new"
    stream = subject.stream(2, 3)
    assert (stream.spec.split, stream.spec.seed, stream.limit) == ("train:new", 2, 3)
