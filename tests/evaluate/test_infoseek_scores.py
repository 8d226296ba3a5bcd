"""InfoSeek's matching, case by case as the official scorer decides."""

import pytest

from viper.data.sample import Sample
from viper.evaluate.metrics import metric
from viper.evaluate.metrics.knowledge import infoseek_score, read_numbers
from viper.evaluate.sample_result import Prediction

TEXT = {"kind": "string", "answers": ["The John Smith", "J. Smith"]}
DATE = {"kind": "time", "answers": ["1893", "March 1893"]}
LENGTH = {"kind": "numerical", "range": [108.0, 132.0]}
POINT = {"kind": "numerical", "range": [5.0, 5.0]}


@pytest.mark.parametrize(
    ("said", "target", "score"),
    [
        ("john smith", TEXT, 1.0),
        ("J Smith!", TEXT, 1.0),
        ("John Smyth", TEXT, 0.0),
        ("", TEXT, 0.0),
        (None, TEXT, 0.0),
        (1893, DATE, 1.0),
        ("march, 1893", DATE, 1.0),
        ("1894", DATE, 0.0),
        ("120", LENGTH, 1.0),
        ("about 120 m", LENGTH, 1.0),
        (120.5, LENGTH, 1.0),
        ("0,120", LENGTH, 1.0),
        ("107.9", LENGTH, 0.0),
        ("110-130", LENGTH, 1.0),
        ("100-130", LENGTH, 1.0),
        ("10 to 130", LENGTH, 0.0),
        ("130-110", LENGTH, 1.0),
        ("-120", LENGTH, 0.0),
        ("1e999", LENGTH, 0.0),
        ("many", LENGTH, 0.0),
        ("5", POINT, 1.0),
        ("4-6", POINT, 0.0),
        ("none", POINT, 0.0),
    ],
)
def test_scores(said, target, score):
    assert infoseek_score(said, target) == score


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,234.5", (1234.5,)),
        ("9-10", (9.0, 10.0)),
        ("3 4 5", (3.0, 4.0)),
        ("7 3", (7.0,)),
        ("1.2.3", (1.2, 3.0)),
        ("-.5.5", (0.0, 0.0)),
        ("nothing", (0.0, 0.0)),
    ],
)
def test_numbers_are_read_as_the_official_scorer_reads_them(text, numbers):
    assert read_numbers(text) == numbers


def sample(number, split):
    return Sample(
        str(number), "q", "question", "image", TEXT, lambda: None, groups={"split": split}
    )


def test_both_unseen_splits_make_the_final_figure():
    from tests.evaluate.test_metrics import figures

    asked = [
        (sample(1, "unseen_question"), Prediction("john smith")),
        (sample(2, "unseen_question"), Prediction("no")),
        (sample(3, "unseen_entity"), Prediction("john smith")),
        (sample(4, "unseen_entity"), Prediction("john smith")),
    ]
    found = figures("infoseek", asked).overall
    assert found["accuracy"].value == 0.75 and found["final"].value == pytest.approx(2 / 3)
    assert found["final"].low <= found["final"].value <= found["final"].high
    assert "final" not in figures("infoseek", asked[:2]).overall
    assert metric("infoseek").score(sample(5, ""), None).value == 0.0
