"""The metric ``extraction``: fields by their types, missing ones, ones without a label."""

from __future__ import annotations

from typing import Any

import pytest

from viper.data.sample import Sample
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction, SampleResult

FIELDS = ("company:text", "date:date", "total:money")
TARGET = {"company": "The Shop, Ltd", "date": "01/02/2018", "total": "RM 1,009.00"}


def sample(target: dict[str, str] | None = None) -> Sample:
    return Sample("1", "read", "extract", "image", TARGET if target is None else target,
                  lambda: None, fields=FIELDS)  # fmt: skip


def read(**values: str | None) -> Prediction:
    return Prediction([{"field": name, "value": value} for name, value in values.items()])


def score(prediction: Prediction | None, target: dict[str, str] | None = None) -> Any:
    return metric("extraction").score(sample(target), prediction)


@pytest.mark.parametrize(
    ("name", "value"), [("total", "1009"), ("date", "2018-02-01"), ("company", "shop ltd.")]
)
def test_a_field_is_right_by_its_type(name: str, value: str) -> None:
    assert score(read(**{name: value})).details[f"{name}.right"] == 1.0


@pytest.mark.parametrize(
    ("name", "value"),
    [("total", "1009.50"), ("date", "2018-01-02"), ("company", "shop"), ("total", None)],
)
def test_another_value_is_wrong(name: str, value: str | None) -> None:
    assert score(read(**{name: value})).details[f"{name}.right"] == 0.0


def test_the_score_is_the_f1_of_the_labelled_fields() -> None:
    right = read(company="The Shop Ltd", date="2018-02-01", total="1009.00")
    assert score(right).value == 1.0
    assert score(read(total="1009.00", date=None, company=None)).value == pytest.approx(2 / 4)
    assert score(None).value == 0.0
    assert score(right, {"total": "1009.00"}).value == 1.0
    assert set(score(right, {"total": "9"}).details) == {"total.right", "total.read"}


def test_figures_are_by_field_and_failures_count_as_missing() -> None:
    results = [
        SampleResult.of(sample(), 0, each.value, details=each.details)
        for each in (score(read(total="1009.00", date="2018-02-02")), score(read(total="1.00")))
    ]
    results.append(SampleResult.of(sample(), 0, failure="media"))
    figures = metric("extraction").figures(results).overall
    assert next(iter(figures)) == "f1"
    assert figures["total"].value == pytest.approx(2 * 1 / (3 + 2))
    assert figures["date"].value == 0.0 and figures["company"].value == 0.0
