"""Metrics by name: hand-worked figures, failures that count, agreement with the world's score."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from viper.data.sample import Sample
from viper.errors import UnknownNameError
from viper.evaluate.intervals import proportion
from viper.evaluate.metrics import METRICS, Figures, metric
from viper.evaluate.sample_result import Prediction, SampleResult

BOX = (0.0, 0.0, 10.0, 10.0)


def sample(task: str, target: Any, **changes: Any) -> Sample:
    plain = Sample("s", "?", task, "image", target, load=lambda: None)
    return replace(plain, **changes)


def rows_of(name: str, cases: list[tuple[Sample, Prediction | None]]) -> list[SampleResult]:
    """Judged rows; one without a prediction failed with kind ``timeout``."""
    found = []
    for number, (one, prediction) in enumerate(cases):
        score = metric(name).score(one, prediction)
        found.append(
            SampleResult(
                sample_id=f"{number}",
                seed=0,
                score=score.value,
                details=score.details if prediction else {},
                failure=None if prediction else "timeout",
                prediction=prediction,
                task=one.task,
                target=one.target,
                groups=one.groups,
                cluster=one.cluster,
            )
        )
    return found


def figures(name: str, cases: list[tuple[Sample, Prediction | None]]) -> Figures:
    return metric(name).figures(rows_of(name, cases))


def values(found: Figures) -> dict[str, float]:
    return {name: estimate.value for name, estimate in found.overall.items()}


def boxed(*box: float) -> Prediction:
    return Prediction(box=(box[0], box[1], box[2], box[3]))


def test_unknown_metrics_list_the_known() -> None:
    with pytest.raises(UnknownNameError, match="unknown metric 'bleu'; known: .*grounding.*nlvr2"):
        metric("bleu")


@pytest.mark.parametrize("name", METRICS.shipped)
def test_every_metric_has_its_name_and_figures_of_nothing(name: str) -> None:
    judge = metric(name)
    assert judge.name == name
    found = judge.figures([])
    assert found.n == 0 and not found.failures and found.headline in found.overall
    assert all(math.isfinite(value) for value in values(found).values())


def test_grounding_counts_a_crash_as_iou_0() -> None:
    at = sample("ground", BOX, cluster="picture")
    found = figures(
        "grounding",
        [
            (at, boxed(*BOX)),  # 1
            (at, boxed(0, 0, 10, 5)),  # 50 / 100: right at 0.5
            (at, boxed(0, 0, 10, 7)),  # 0.7 is not above 0.7
            (at, None),  # 0
        ],
    )
    assert values(found) == {"mean_iou": pytest.approx(2.2 / 4), "acc@0.5": 0.75, "acc@0.7": 0.25}
    assert found.failures == {"timeout": proportion(1, 4)}
    assert found.headline == "mean_iou" and found.n == 4


def test_a_failed_row_is_0_whatever_it_holds() -> None:
    row = SampleResult("s", 0, 1.0, {"iou": 1.0, "acc@0.5": 1.0}, failure="crash", target=BOX)
    for name in ("grounding", "gqa", "mixed"):
        found = metric(name).figures([replace(row, task="ground")])
        assert set(values(found).values()) == {0.0} and found.failures["crash"].value == 1.0


def test_nlvr_needs_every_picture_of_every_example_of_a_group() -> None:
    cases = []
    for cluster, example, wrong in (("7", "7-0", 0), ("7", "7-1", 1), ("8", "8-0", 0)):
        one = sample("statement", True, cluster=cluster, groups={"example": example})
        cases += [(one, Prediction(value=index >= wrong)) for index in range(6)]
    found = figures("nlvr", cases)
    # One of 18 pictures is wrong; it spoils group 7, though its example 7-0 is all right.
    assert values(found) == {"accuracy": 17 / 18, "consistency": 1 / 2}
    assert found.overall["consistency"].n == 2 and not found.groups
    failed = metric("nlvr").figures([replace(row, failure="x") for row in rows_of("nlvr", cases)])
    assert values(failed) == {"accuracy": 0.0, "consistency": 0.0}


def test_rows_without_a_cluster_are_groups_of_their_own() -> None:
    one = sample("statement", False)
    found = figures("nlvr2", [(one, Prediction(False)), (one, Prediction(True)), (one, None)])
    assert values(found) == {"accuracy": 1 / 3, "consistency": 1 / 3}


def test_nextqa_counts_previous_as_next() -> None:
    def case(kind: str, said: int) -> tuple[Sample, Prediction]:
        one = sample("choice", 2, options=tuple("abcde"), groups={"type": kind})
        return one, Prediction(choice_index=said)

    found = figures("nextqa", [case("TP", 2), case("TN", 1), case("TC", 2), case("CW", 0)])
    assert values(found) == {
        "CW": 0.0,
        "CH": 0.0,
        "TN": 0.5,  # the TP one and the TN one
        "TC": 1.0,
        "DC": 0.0,
        "DL": 0.0,
        "DO": 0.0,
        "C": 0.0,
        "T": 2 / 3,
        "D": 0.0,
        "overall": 0.5,
    }
    assert {name for name, one in found.overall.items() if one.n == 0} == {
        *("CH", "DC", "DL", "DO", "D")
    }


def test_okvqa_has_soft_accuracy_ours_official_and_with_stems() -> None:
    one = sample("question", ("dogs",) * 2 + ("dog",) * 8)
    found = figures("okvqa", [(one, Prediction("dogs")), (one, Prediction(None)), (one, None)])
    # Two of ten agree: 0.6; as stems all ten do: 1.
    assert values(found) == {
        "soft_accuracy": pytest.approx(0.2),
        "official_soft_accuracy": pytest.approx(0.2),
        "soft_accuracy_stemmed": pytest.approx(1 / 3),
    }


def test_gqa_is_broken_down_by_type() -> None:
    cases = [
        (sample("question", "yes", groups={"structural": "verify", "semantic": "rel"}), True),
        (sample("question", "two", groups={"structural": "query", "semantic": "rel"}), "the dog"),
    ]
    found = figures("gqa", [(one, Prediction(said)) for one, said in cases])
    assert values(found) == {"accuracy": 0.5, "exact": 0.0}  # the program returned True
    assert {n: {k: e.value for k, e in g.items()} for n, g in found.groups.items()} == {
        "structural": {"query": 0.0, "verify": 1.0},
        "semantic": {"rel": 0.5},
    }


def test_tags_that_failed_count_as_missed() -> None:
    one = sample("tag", (("cat", BOX), ("dog", BOX)))
    said = Prediction([{"label": "Cat", "box": list(BOX)}])
    found = figures("tagging", [(one, said), (one, None)])
    assert values(found) == {
        "f1": pytest.approx((2 / 3) / 2),  # 2 * 1 / (1 + 2), and 0
        "f1_pooled": pytest.approx(2 / 5),  # 2 * 1 / (1 + 4)
        "precision": 1.0,
        "recall": 1 / 4,
    }


def test_a_mixed_set_keeps_edits_out_of_the_mean() -> None:
    found = figures(
        "mixed",
        [
            (sample("ground", BOX, groups={"task": "ground"}), boxed(0, 0, 10, 5)),
            (sample("question", ("a", "b")), Prediction("B")),
            (sample("choice", 1), Prediction(choice_index=0)),
            (sample("statement", True), Prediction(True)),
            (sample("tag", (("cat", BOX),)), None),
            (sample("edit", None), Prediction(None)),
            (sample("edit", None), None),
        ],
    )
    assert values(found) == {
        "mean_score": pytest.approx((0.5 + 1 + 0 + 1 + 0) / 5),
        "ground.mean_iou": 0.5,
        "ground.acc@0.5": 1.0,
        "ground.acc@0.7": 0.0,
        "question.accuracy": 1.0,
        "choice.accuracy": 0.0,
        "statement.accuracy": 1.0,
        "tag.f1": 0.0,
        "tag.f1_pooled": 0.0,
        "tag.precision": 0.0,
        "tag.recall": 0.0,
        "edit.came_out": 0.5,
    }
    assert found.n == 7 and found.overall["mean_score"].n == 5
    assert found.failures["timeout"] == proportion(2, 7)
    assert list(found.groups) == ["task"]


def test_the_world_counts_as_its_own_score_does() -> None:
    from viper_lab.datasets.world import World, world_sample
    from viper_lab.scores.world import ScoredSample, ScoreRequest, report
    from viper_lab.world.queries.generate import generate

    drawn = [item for family in ("referring", "question") for item in generate(family, "val", 3, 9)]
    cases, scored = [], []
    for number, item in enumerate(drawn):
        one = world_sample(item)
        right = number % 3 > 0
        said = one.target if right else "nothing"
        prediction = boxed(*one.target) if one.task == "ground" else Prediction(said)
        cases.append((one, prediction if right or one.task != "ground" else None))
        scored.append(ScoredSample(item, right, None, {}))
    ours, theirs = figures("world", cases), report(scored, ScoreRequest())
    assert World().metric == "world"
    assert ours.overall["accuracy"].value == theirs["overall"].value
    assert ours.groups["query_type"].keys() == theirs["query_types"].keys()
    for name, of_theirs in (
        ("family", theirs["families"]),
        ("query_type", theirs["query_types"]),
        ("steps", theirs["steps"]),
    ):
        for value, estimate in ours.groups[name].items():
            assert estimate.value == of_theirs[value].value and estimate.n == of_theirs[value].n


def test_the_page_names_every_metric_and_figure() -> None:
    page = (Path(__file__).parents[2] / "docs" / "scoring.md").read_text("utf-8")
    for name in METRICS.shipped:
        assert f"`{name}`" in page
        for figure in metric(name).figures([]).overall:
            assert re.search(rf"`[^`]*(?<!\w){re.escape(figure)}(?!\w)[^`]*`", page), figure


def test_every_shipped_set_has_a_metric() -> None:
    from viper.data.registry import DATASETS, data_set

    for name in DATASETS.shipped:
        assert data_set(name).metric in METRICS.shipped


def test_no_box_overlaps_nothing() -> None:
    assert metric("grounding").score(sample("ground", BOX), None).value == 0.0
