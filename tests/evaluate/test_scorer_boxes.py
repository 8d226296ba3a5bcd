"""Overlap of boxes and matching of tags, by hand and by property."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viper.agreement import box_iou, match_tags
from viper.data.sample import Sample
from viper.evaluate.metrics.accuracy import right_by_task
from viper.evaluate.sample_result import Prediction

NUMBER = st.floats(-1e6, 1e6)
ANY_NUMBER = st.floats() | st.floats(-10, 10)
BOX = st.tuples(NUMBER, NUMBER, NUMBER, NUMBER)
SMALL = st.integers(0, 6).map(float)
TAG = st.tuples(st.sampled_from(["cat", "a Cat", "dog"]), st.tuples(SMALL, SMALL, SMALL, SMALL))


@pytest.mark.parametrize(
    ("first", "second", "iou"),
    [
        ((0, 0, 10, 10), (0, 0, 10, 5), 0.5),  # 50 / 100
        ((0, 0, 10, 10), (10, 0, 20, 10), 0.0),  # touching along an edge
        ((0, 0, 10, 10), (10, 10, 20, 20), 0.0),  # touching in a corner
        ((0, 0, 10, 10), (2, 2, 2, 8), 0.0),  # no width: 0 / 100
        ((2, 2, 2, 8), (2, 2, 2, 8), 0.0),  # nothing against nothing
        ((0, 0, 10, 10), (8, 8, 2, 2), 0.0),  # corners swapped: no area
        ((0, 0, 10, 10), (-10, -10, 20, 20), 100 / 900),
        ((0, 0, 10, 10), (math.nan, 0, 10, 10), 0.0),
        ((0, 0, 10, 10), (0, 0, math.inf, 10), 0.0),
    ],
)
def test_hand_worked(first: tuple, second: tuple, iou: float) -> None:
    assert box_iou(first, second) == box_iou(second, first) == iou


def test_an_iou_of_exactly_a_half_is_right() -> None:
    sample = Sample("s", "?", "ground", "image", (0, 0, 10, 10), list)
    assert right_by_task(sample, Prediction(None, (0, 0, 10, 5)))
    assert not right_by_task(sample, Prediction(None, (0, 0, 10, 4.999)))


@settings(deadline=None)
@given(BOX, BOX)
def test_an_iou_is_a_symmetric_share(first: tuple, second: tuple) -> None:
    iou = box_iou(first, second)
    assert 0.0 <= iou <= 1.0
    assert iou == pytest.approx(box_iou(second, first))


@settings(deadline=None)
@given(st.tuples(*[ANY_NUMBER] * 4), st.tuples(*[ANY_NUMBER] * 4))
def test_no_numbers_make_an_iou_that_is_none(first: tuple, second: tuple) -> None:
    assert 0.0 <= box_iou(first, second) <= 1.0


@settings(deadline=None)
@given(st.tuples(SMALL, SMALL), st.integers(1, 9), st.integers(1, 9))
def test_a_box_is_itself(corner: tuple, width: int, height: int) -> None:
    box = (*corner, corner[0] + width, corner[1] + height)
    assert box_iou(box, box) == 1.0


def test_tags_match_one_to_one() -> None:
    cat, dog = ("Cat", (0, 0, 10, 10)), ("dog", (0, 0, 10, 10))
    twice = match_tags([cat, cat], [("the cat", (0, 0, 10, 9)), dog])
    assert twice == (1, 2, 2)  # one of two, of two: 2 * 1 / 4
    assert twice.f1 == 0.5
    assert match_tags([dog], [cat]).f1 == 0.0
    assert match_tags([], []).f1 == 1.0
    assert match_tags([], [cat]).f1 == match_tags([cat], []).f1 == 0.0


def test_the_order_of_tags_costs_no_match() -> None:
    # The first fits both; taken greedily by the near one, the second would find nothing.
    wide, left = ("x", (0, 0, 10, 10)), ("x", (0, 0, 6, 10))
    expected = [("x", (0, 0, 8, 10)), ("x", (4, 0, 10, 10))]
    for mine in ([wide, left], [left, wide]):
        assert match_tags(mine, expected).matched == 2
        assert match_tags(mine, expected[::-1]).matched == 2


@settings(deadline=None)
@given(st.lists(TAG, max_size=5), st.lists(TAG, max_size=5))
def test_tag_counts_hold_together(mine: list, theirs: list) -> None:
    counts = match_tags(mine, theirs)
    assert counts.matched <= min(len(mine), len(theirs))
    assert 0.0 <= counts.f1 <= 1.0
    assert counts.matched == match_tags(theirs, mine).matched
    as_records = [{"label": label, "box": list(box)} for label, box in mine]
    assert match_tags(as_records, theirs) == counts


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
