"""The figures of single models, with the shipped ones on a few fresh scenes."""

import pytest

from viper.evaluate.intervals import Estimate
from viper.profiles import load_profile
from viper_lab.scores.perception import perception_report


@pytest.fixture(scope="module")
def report():
    toolbox = load_profile("embedded").components().toolbox
    return perception_report(toolbox, "val", seed=3, scenes=6, clips=1)


@pytest.mark.parametrize(
    ("model", "figure"),
    [
        ("matcher", "shape"),
        ("matcher", "full_phrase"),
        ("depth", "order"),
        ("depth", "order_hard"),
        ("vqa", "colour"),
        ("vqa on frames", "colour"),
        ("detector on frames", "object"),
        ("video", "temporal_iou"),
        ("segmenter", "found"),
        ("segmenter", "precision"),
    ],
)
def test_every_model_is_scored(report, model, figure):
    assert isinstance(report[model][figure], Estimate)


def test_every_figure_has_a_number_of_cases_and_an_interval(report):
    for model in ("matcher", "depth", "vqa", "video", "segmenter"):
        for name, estimate in report[model].items():
            assert estimate.n >= 1, name
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1, name


def test_counts_are_no_figures(report):
    for figures in report.values():
        assert not {"n", "pairs", "phrases", "pictures", "events", "objects", "segments"} & set(
            figures
        )


def test_detector_figures_are_there(report):
    assert {"object", "shape", "full", "referring"} <= set(report["detector"])
