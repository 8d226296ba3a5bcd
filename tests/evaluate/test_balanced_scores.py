"""Figures of HR-Bench, BLINK and CV-Bench against the formulas that their authors publish."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from statistics import fmean

import pytest

from viper.data.sample import Sample
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import Prediction, SampleResult


def results_of(name: str, groups: list[Mapping[str, str]], seed: int = 0) -> list[SampleResult]:
    """Results of a set of choices: about two thirds right, a few without an answer."""
    random, results = Random(seed), []
    for number, group in enumerate(groups):
        one = Sample(
            str(number), "?", "choice", "image", 0, lambda: None, ("a", "b"), group, group["unit"]
        )
        answer = None if random.random() < 0.1 else Prediction(choice_index=random.randrange(2))
        score = metric(name).score(one, answer).value
        failure = None if answer else "timeout"
        results.append(SampleResult.of(one, 0, score, prediction=answer, failure=failure))
    return results


def mean_where(results: list[SampleResult], key: str, value: str) -> float:
    return fmean(result.score for result in results if result.groups[key] == value)


@pytest.mark.parametrize("seed", range(5))
def test_blink_is_the_mean_of_its_subtasks(seed: int) -> None:
    sizes = {"Art_Style": 117, "IQ_Test": 150, "Counting": 3, "Jigsaw": 1}
    groups = [{"subtask": name, "unit": ""} for name, size in sizes.items() for _ in range(size)]
    results = results_of("blink", groups, seed)
    found = metric("blink").figures(results)
    official = sum(mean_where(results, "subtask", name) for name in sizes) / len(sizes)
    accuracy = found.overall["accuracy"]
    assert accuracy.value == pytest.approx(official) and accuracy.n == 271
    assert accuracy.low < accuracy.value < accuracy.high
    assert found.groups["subtask"]["IQ_Test"].n == 150 and found.failures["timeout"].value > 0


@pytest.mark.parametrize("seed", range(5))
def test_cvbench_is_the_mean_of_2d_and_3d(seed: int) -> None:
    sizes = {("2D", "ADE20K"): 40, ("2D", "COCO"): 9, ("3D", "Omni3D"): 120}
    groups = [
        {"type": kind, "source": source, "unit": f"{source}{number // 2}"}
        for (kind, source), size in sizes.items()
        for number in range(size)
    ]
    results = results_of("cvbench", groups, seed)
    ade, coco, omni = (mean_where(results, "source", source) for _, source in sizes)
    found = metric("cvbench").figures(results).overall["accuracy"].value
    assert found == pytest.approx((1 / 2) * ((ade + coco) / 2 + omni))
    only_2d = [result for result in results if result.groups["type"] == "2D"]
    found = metric("cvbench").figures(only_2d).overall["accuracy"].value
    assert found == pytest.approx((ade + coco) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_hrbench_is_the_mean_of_its_cycles(seed: int) -> None:
    groups = [
        {"category": category, "cycle": str(cycle), "unit": f"{category}{question}"}
        for category in ("single", "cross")
        for question in range(20)
        for cycle in range(4)
    ]
    results = results_of("hrbench", groups, seed)
    found = metric("hrbench").figures(results)
    official = fmean(mean_where(results, "cycle", str(cycle)) for cycle in range(4))
    assert found.overall["accuracy"].value == pytest.approx(official)
    whole = [
        all(result.score for result in results if result.cluster == unit)
        for unit in {result.cluster for result in results}
    ]
    assert found.overall["consistency"].value == fmean(whole)
    single = [result for result in results if result.groups["category"] == "single"]
    official = fmean(mean_where(single, "cycle", str(cycle)) for cycle in range(4))
    assert found.groups["category"]["single"].value == pytest.approx(official)


@pytest.mark.parametrize("name", ["blink", "cvbench"])
def test_all_right_none_right_and_nothing(name: str) -> None:
    group = {"subtask": "Jigsaw", "type": "2D", "source": "COCO"}
    for score in (0.0, 1.0):
        results = [SampleResult(str(number), 0, score, groups=group) for number in range(10)]
        accuracy = metric(name).figures(results).overall["accuracy"]
        assert accuracy.value == score and accuracy.high - accuracy.low > 0.1
    assert metric(name).figures([]).overall["accuracy"].n == 0
