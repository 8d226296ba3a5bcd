"""Samples found again by their ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluate.fake_backends import a_set
from viper.data.registry import data_set, samples_by_id
from viper.data.sample import DatasetSpec
from viper.errors import DataError


@pytest.mark.parametrize("name", ["world", "world-a"])
def test_drawn_samples_are_drawn_again(name: str) -> None:
    drawn = data_set(name).samples(DatasetSpec(None, "train", 3, 12))
    asked = [drawn[10].sample_id, drawn[2].sample_id, drawn[5].sample_id]
    found = samples_by_id(name, DatasetSpec(), asked)
    assert list(found) == asked and list(found.values()) == [drawn[10], drawn[2], drawn[5]]


def test_ids_of_nothing_are_absent() -> None:
    ids = ["train-0-dance-1", "xx-0-video-1", "train-0-video-99999999999", "train-0-video--1", ""]
    assert samples_by_id("world", DatasetSpec(), ids) == {}
    assert samples_by_id("world-a", DatasetSpec(), ["train-0-question-0"]) == {}


def test_a_split_that_is_given_matters() -> None:
    ids = ["val-0-question-0"]
    assert samples_by_id("world", DatasetSpec(split="val:question"), ids)
    assert not samples_by_id("world", DatasetSpec(split="train"), ids)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file, _ = a_set(tmp_path, 8)
    found = samples_by_id(str(file), DatasetSpec(limit=1), ["q7", "q9", "q2"])
    assert list(found) == ["q7", "q2"] and found["q7"].text == "what color is thing 7?"
    with pytest.raises(DataError, match="no such file"):
        samples_by_id(str(tmp_path / "absent.csv"), DatasetSpec(), ["q7"])
