"""Sets by name, from packages, and which samples an evaluation takes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from viper.data.nlvr import NLVR
from viper.data.registry import DATASETS, choose, data_set
from viper.data.sample import DataSet, DatasetSpec, Finding, Sample
from viper.errors import DataError, UnknownNameError
from viper.plugins import offered


class Offered:
    name, splits, metric, summary = "mine", ("all",), "grounding", "one of mine"

    def samples(self, spec: DatasetSpec) -> list[Sample]:
        return []

    def check(self, spec: DatasetSpec) -> list[Finding]:
        return []


OBJECT = Offered()


def broken() -> object:
    return object()


def test_every_shipped_set_keeps_the_contract() -> None:
    for name in DATASETS.names():
        found = data_set(name)
        assert isinstance(found, DataSet) and found.name == name
        assert found.splits and found.metric and "\n" not in found.summary


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        UnknownNameError, match=r"'refcocoo'; known: FILE.csv, .*refcoco, refcoco\+"
    ):
        data_set("refcocoo")


@pytest.mark.parametrize("attribute", ["OBJECT", "Offered"])
def test_a_package_offers_an_object_or_what_makes_one(attribute: str) -> None:
    with offered(DATASETS.group, {"mine": f"{__name__}:{attribute}"}):
        found = data_set("mine")
        assert not isinstance(found, type) and found.metric == "grounding"
        assert DATASETS.names()[-1] == "mine"
    assert "mine" not in DATASETS.names()


def test_what_is_no_set_is_refused() -> None:
    broken_set = {"mine": f"{__name__}:broken"}
    with (
        offered(DATASETS.group, broken_set),
        pytest.raises(DataError, match="the data set 'mine' lacks name, splits, metric"),
    ):
        data_set("mine")


def samples(count: int) -> list[Sample]:
    def load() -> Any:
        raise AssertionError

    return [Sample(f"s{n}", "x", "question", "image", "y", load) for n in range(count)]


def test_chosen_keeps_the_order_and_grows() -> None:
    every = samples(100)
    assert choose(every, None, 0) == every == choose(every, 100, 0) == choose(every, 500, 3)
    ten, twenty = choose(every, 10, 0), choose(every, 20, 0)
    assert len(ten) == 10 and len(twenty) == 20
    assert [s for s in every if s in ten] == ten and all(s in twenty for s in ten)
    assert choose(every, 10, 1) != ten and choose(every, 0, 0) == []
    assert {s.sample_id for s in choose(every[::-1], 10, 0)} == {s.sample_id for s in ten}


def test_chosen_is_the_same_on_every_machine() -> None:
    known = ["s1", "s2", "s10"]
    assert [sample.sample_id for sample in choose(samples(20), 3, 7)] == known
    code = (
        "from tests.data.test_data_registry import *;"
        "print([s.sample_id for s in choose(samples(20), 3, 7)])"
    )
    run = [sys.executable, "-c", code]
    found = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    assert found.strip() == str(known)


def test_looking_up_a_set_imports_nothing_heavy() -> None:
    code = (
        "import sys; from viper.data.registry import DATASETS, data_set;"
        "[data_set(n) for n in DATASETS.names()];"
        "print({'torch', 'datasets', 'av', 'pandas'} & set(sys.modules))"
    )
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, check=True, capture_output=True, text=True).stdout == "set()\n"


def test_nlvr_is_what_it_says() -> None:
    assert data_set("nlvr") is NLVR
