"""What a sweep chooses, and how far its order can be trusted."""

from __future__ import annotations

import json

import pytest

from viper.tuning.sweep import Sweep, Tried, in_order, values_between


def a_sweep(current: float, *tried: tuple[float, ...]) -> Sweep:
    return Sweep("detector.threshold", current, tuple(Tried(*one) for one in tried))


def test_the_best_on_the_shots_is_chosen_whatever_the_full_set_says() -> None:
    found = a_sweep(0.1, (0.1, 0.5, 0.9), (0.2, 0.7, 0.6), (0.3, 0.6, 0.8))
    assert found.chosen.value == 0.2
    assert found.regret == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("current", "chosen"), [(0.1, 0.1), (0.2, 0.1), (0.29, 0.3), (0.3, 0.3), (0.9, 0.3)]
)
def test_of_equals_the_nearest_to_the_current_value_is_chosen(
    current: float, chosen: float
) -> None:
    # 0.2 is as far from 0.1 as from 0.3, though not in floating point: the lower one is taken
    assert a_sweep(current, (0.1, 0.5), (0.3, 0.5), (0.7, 0.4)).chosen.value == chosen


def test_the_current_value_stays_where_nothing_is_better() -> None:
    assert a_sweep(0.4, (0.0, 0.5), (0.4, 0.5), (0.8, 0.5)).chosen.value == 0.4


@pytest.mark.parametrize(
    ("tried", "tau"),
    [
        ([(0.1, 0.1, 0.3), (0.2, 0.2, 0.4), (0.3, 0.3, 0.5)], 1.0),
        ([(0.1, 0.3, 0.3), (0.2, 0.2, 0.4), (0.3, 0.1, 0.5)], -1.0),
        ([(0.1, 0.1, 0.3), (0.2, 0.2, 0.5), (0.3, 0.3, 0.4)], 1 / 3),
        # tau-b: one pair is tied on the shots, two of three agree: 2 / sqrt(2 * 3)
        ([(0.1, 0.1, 0.3), (0.2, 0.1, 0.4), (0.3, 0.2, 0.5)], 2 / 6**0.5),
    ],
)
def test_agreement_is_kendalls_tau(tried: list[tuple[float, ...]], tau: float) -> None:
    assert a_sweep(0.1, *tried).agreement == pytest.approx(tau)


@pytest.mark.parametrize(
    "tried",
    [
        [(0.1, 0.1), (0.2, 0.2)],
        [(0.1, 0.1, 0.3), (0.2, 0.2)],
        [(0.1, 0.1, 0.3), (0.2, 0.2, 0.3)],
        [(0.1, 0.2, 0.3), (0.2, 0.2, 0.4)],
        [(0.1, 0.2, 0.3)],
    ],
    ids=["no full", "one full missing", "full equal", "shots equal", "one value"],
)
def test_no_order_no_agreement(tried: list[tuple[float, ...]]) -> None:
    assert a_sweep(0.1, *tried).agreement is None


def test_regret() -> None:
    assert a_sweep(0.1, (0.1, 0.9, 0.8), (0.2, 0.1, 0.5)).regret == 0
    assert a_sweep(0.1, (0.1, 0.9), (0.2, 0.1)).regret is None
    assert a_sweep(0.1, (0.1, 0.9), (0.2, 0.1, 0.5)).regret is None  # the chosen one has none


def test_as_json() -> None:
    found = json.loads(json.dumps(a_sweep(0.1, (0.1, 0.5), (0.2, 0.75, 1.0)).to_json()))
    assert found == {
        "setting": "detector.threshold",
        "current": 0.1,
        "chosen": 0.2,
        "agreement": None,
        "regret": 0.0,
        "values": [
            {"value": 0.1, "shots": 0.5, "full": None},
            {"value": 0.2, "shots": 0.75, "full": 1.0},
        ],
    }


def test_values_to_try() -> None:
    assert values_between(0.08, 0.41) == (0.08, 0.19, 0.3, 0.41)
    assert values_between(0.2, 0.2) == (0.2,)
    assert in_order([0.8, 0.0, 0.8], 0.4) == (0.0, 0.4, 0.8)
