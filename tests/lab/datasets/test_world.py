"""The embedded world as a data set."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.errors import UnknownNameError
from viper.models.media import media_from


def drawn(split: str | None, limit: int, seed: int = 0) -> list[Sample]:
    return list(data_set("world").samples(DatasetSpec(None, split, seed, limit)))


def test_families_are_drawn_equally() -> None:
    samples = drawn(None, 7)
    assert [s.groups["family"] for s in samples] == [
        *["referring"] * 3,
        *["question"] * 2,
        *["video"] * 2,
    ]
    assert samples == drawn("val", 7) and samples != drawn("val", 7, seed=1)
    assert samples[0].sample_id == "val-0-referring-0" and samples[0].groups["steps"].isdigit()
    by_task = {sample.task: sample for sample in samples}
    x0, y0, x1, y1 = by_task["ground"].target
    assert 0 <= x0 < x1 <= 192 and 0 <= y0 < y1 <= 144
    choice = by_task["choice"]
    assert 0 <= choice.target < len(choice.options) and choice.cluster.startswith("val-clip-")
    assert media_from(choice.load()).kind == "video"
    again = pickle.loads(pickle.dumps(by_task["ground"]))
    assert media_from(again.load()).images[0].shape == (144, 192, 3)
    assert data_set("world").check(DatasetSpec())[0].ok


def test_a_suffix_takes_one_family() -> None:
    assert {s.groups["family"] for s in drawn("val:question", 3)} == {"question"}
    assert len(drawn("train:referring", 1)) == 1
    with pytest.raises(UnknownNameError, match="'val:video4'"):
        drawn("val:video4", 1)


@pytest.mark.parametrize("split", ["val", "test"])
def test_four_expressions_an_image(split: str) -> None:
    samples = drawn(f"{split}:referring4", 10)
    assert samples[:6] == drawn(f"{split}:referring4", 6)
    assert list(Counter(s.cluster for s in samples).values()) == [4, 4, 2]
    assert len({(s.cluster, s.text) for s in samples}) == 10
    assert len({s.sample_id for s in samples}) == 10
    assert {s.task for s in samples} == {"ground"}
