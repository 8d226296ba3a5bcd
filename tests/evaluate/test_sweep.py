"""Sweeps of one setting, with runs that are made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from engine_doubles import a_sample

from tests.strategies.bench import Bench
from viper.errors import UnknownNameError
from viper.evaluate.campaign import RunProgress, SampledEvaluation
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.sample_result import SampleResult
from viper.evaluate.sweep import (
    SweepPoint,
    SweepResult,
    SweepSetup,
    current_value,
    in_order,
    sweep,
    values_between,
)
from viper.reasoner import RunOptions
from viper.strategies.base import Components


class Asked:
    """Stands for ``answer_all``: scores as told, and notes what was asked."""

    def __init__(self, score: Callable[[RunOptions, Mapping[str, float]], float]) -> None:
        self._score = score
        self.folders: list[str] = []
        self.documents: list[Any] = []
        self.tuned: list[bool | None] = []

    def __call__(
        self,
        components: Components,
        drawn: SampledEvaluation,
        folder: Path,
        document: Any,
        on_done: Callable[[RunProgress], None],
    ) -> list[SampleResult]:
        options = drawn.evaluation.options
        self.folders.append(folder.name)
        self.documents.append(document)
        self.tuned.append(options.self_tune)
        on_done(RunProgress(len(drawn.samples), len(drawn.samples)))
        score = self._score(options, components.toolbox.settings.start_thresholds(self_tune=False))
        return [SampleResult(s.sample_id, 0, score * (n % 2)) for n, s in enumerate(drawn.samples)]


@pytest.fixture
def swept(tmp_path: Path) -> SweepSetup:
    shots = SampledEvaluation(Evaluation("shots"), [a_sample(n) for n in range(4)])
    full = SampledEvaluation(Evaluation("full"), [a_sample(n) for n in range(10, 18)])
    return SweepSetup(shots, full, tmp_path, {"name": "bench"})


def test_temperatures_are_tried_with_the_profiles_own_among_them(
    monkeypatch: pytest.MonkeyPatch, swept: SweepSetup
) -> None:
    asked = Asked(lambda options, _: 1 - abs((options.temperature or 0.0) - 0.4))
    monkeypatch.setattr("viper.evaluate.sweep.answer_all", asked)
    said = []
    with Bench([], temperature=0.0) as bench:
        components = bench.reasoner.components
        found = sweep(
            components, "temperature", [0.8, 0.4], swept, lambda name, running: said.append(name)
        )
    assert (found.name, found.current, found.chosen.value) == ("temperature", 0.0, 0.4)
    assert [one.value for one in found.points] == [0.0, 0.4, 0.8]
    assert [one.shots for one in found.points] == pytest.approx([0.3, 0.5, 0.3])
    assert [one.full for one in found.points] == pytest.approx([0.3, 0.5, 0.3])
    assert found.agreement == pytest.approx(1.0) and found.regret == 0
    assert asked.folders == [
        f"temperature-{value}-{kind}" for value in (0.0, 0.4, 0.8) for kind in ("shots", "full")
    ]
    assert set(asked.tuned) == {False} and asked.documents[0] == {"name": "bench"}
    assert said[:2] == ["temperature 0, shots", "temperature 0, full"]


def test_a_threshold_is_tried_as_it_is_where_nothing_tunes_it(
    monkeypatch: pytest.MonkeyPatch, swept: SweepSetup
) -> None:
    asked = Asked(lambda _, thresholds: thresholds["detector.threshold"])
    monkeypatch.setattr("viper.evaluate.sweep.answer_all", asked)
    alone = SweepSetup(swept.shots, None, swept.folder, {})
    with Bench([]) as bench:
        components = bench.reasoner.components
        found = sweep(components, "detector.threshold", [0.05, 0.1234561, 0.1234562], alone)
        assert components.toolbox.settings.start_thresholds()["detector.threshold"] == 0.4
    assert [one.value for one in found.points] == [0.05, 0.1234561, 0.1234562, 0.4]
    assert [one.shots for one in found.points] == [one.value / 2 for one in found.points]
    assert found.chosen.value == 0.4 and found.agreement is None and found.regret is None
    assert len(set(asked.folders)) == 4  # values that look alike have runs of their own


def test_current_values() -> None:
    with Bench([], temperature=0.7) as bench:
        components = bench.reasoner.components
        assert current_value(components, "temperature") == 0.7
        assert current_value(components, "detector.threshold") == 0.4
        fixed = components.with_thresholds({"detector.threshold": 0.2})
        assert current_value(fixed, "detector.threshold") == 0.2
        with pytest.raises(UnknownNameError, match="'nope'; known: detector.threshold, video"):
            current_value(components, "nope")


def a_sweep(current: float, *tried: tuple[float, ...]) -> SweepResult:
    return SweepResult("detector.threshold", current, tuple(SweepPoint(*one) for one in tried))


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
