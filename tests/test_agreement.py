"""A score of exactly .5 is correct for metrics, mining, learning and reports alike."""

from __future__ import annotations

from typing import cast

import pytest

from tests.ace.test_select import ran
from viper.ace.select import Selection, select
from viper.agreement import is_correct, same_box
from viper.data.sample import kind_of
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import SampleResult
from viper.schema import Trace
from viper.tuning.learner import ScoredAnswer

HALF_CORRECT = [(0.0, False), (0.499, False), (0.5, True), (0.501, True), (1.0, True)]


@pytest.mark.parametrize(("score", "expected"), HALF_CORRECT)
def test_a_score_is_read_alike_everywhere(score: float, expected: bool) -> None:
    assert is_correct(score) is expected
    assert bool(select([ran("a", score=score)], Selection())) is expected
    assert ScoredAnswer(cast(Trace, None), score).solved is expected
    rows = [SampleResult(sample_id="a", seed=0, score=score, cluster="c")]
    figures = metric("hrbench").figures(rows)
    assert figures.overall["consistency"].value == expected


def test_boxes_of_half_an_overlap_are_the_same() -> None:
    assert same_box((0, 0, 10, 5), (0, 0, 10, 10))
    assert not same_box((0, 0, 10, 4.99), (0, 0, 10, 10))


def test_the_type_of_a_query_is_the_group_of_that_name_or_the_first() -> None:
    assert kind_of({"family": "question", "query_type": "count"}) == "count"
    assert kind_of({"structural": "verify", "semantic": "rel"}) == "verify"
    assert kind_of({}) == ""
