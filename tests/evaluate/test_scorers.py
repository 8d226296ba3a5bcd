"""Scorers by hand-worked cases."""

import pytest

from viper.evaluate.intervals import mean, proportion
from viper.evaluate.scorers import (
    answer_correct,
    box_iou,
    choice_correct,
    ground_correct,
    normalised,
    window_iou,
)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0, 0, 10, 10), (0, 0, 10, 10), 1.0),
        ((0, 0, 10, 10), (5, 0, 15, 10), 50 / 150),
        ((0, 0, 10, 10), (10, 0, 20, 10), 0.0),
        ((0, 0, 0, 0), (0, 0, 0, 0), 0.0),
        ((5, 5, 1, 1), (0, 0, 10, 10), 0.0),
    ],
)
def test_box_iou(first: tuple, second: tuple, expected: float) -> None:
    assert box_iou(first, second) == pytest.approx(expected)
    assert box_iou(second, first) == pytest.approx(expected)


def test_window_iou() -> None:
    assert window_iou((0, 4), (2, 6)) == pytest.approx(2 / 6)
    assert window_iou((3, 3), (0, 8)) == 0.0


def test_a_missing_prediction_is_wrong() -> None:
    assert not ground_correct(None, (0, 0, 1, 1))
    assert not answer_correct(None, "none")
    assert not choice_correct(None, 0)


@pytest.mark.parametrize(
    ("prediction", "target"), [("The Cube.", "cube"), (3, "three"), (True, "yes"), ("two", "2")]
)
def test_both_sides_are_normalised_alike(prediction: object, target: str) -> None:
    assert answer_correct(prediction, target)
    assert normalised(prediction) == normalised(normalised(target))


def test_wilson_interval_of_a_known_case() -> None:
    estimate = proportion(8, 10)
    assert (estimate.value, estimate.n) == (0.8, 10)
    assert estimate.low == pytest.approx(0.4902, abs=1e-4)
    assert estimate.high == pytest.approx(0.9433, abs=1e-4)
    assert proportion(0, 0).high == 1.0


def test_bootstrap_mean_contains_the_mean_and_repeats() -> None:
    values = [0.1, 0.5, 0.9, 0.4]
    first = mean(values)
    assert first.value == pytest.approx(0.475)
    assert first.low < first.value < first.high
    assert first == mean(values)
