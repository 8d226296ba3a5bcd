"""Parts ``counting`` and ``existence``: the verdicts, and one run on real photographs."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.official import real
from tests.strategies.test_confidence import trace
from viper.errors import UsageError
from viper.schema import ToolCall, Trace
from viper.strategies.confidence import Confidence
from viper_lab.photographs import trust
from viper_lab.photographs.job import PhotographJob
from viper_lab.photographs.trust import COUNT, Judged


def answers(count: int, *, wrong_below: float, ranked: bool = True) -> list[Judged]:
    """Answers of falling confidence, four a picture: wrong below a confidence."""
    random = np.random.default_rng(0)
    values = np.linspace(1, 0, count)
    scores = values if not ranked else random.random(count)
    return [
        Judged(str(number // 4), confidence > wrong_below, float(confidence), float(score))
        for number, (confidence, score) in enumerate(zip(values, scores, strict=True))
    ]


@pytest.mark.parametrize(
    ("wrong_below", "limit", "verdicts"),
    [
        (0.5, 0.6, [True, True]),  # all right, 40 % answered
        (0.5, 0.9, [True, False]),  # too few answered
        (0.5, 0.1, [False, True]),  # four of nine wrong
        (0.5, None, [None, False]),
    ],
)
def test_the_risk_and_the_coverage_of_a_limit_are_judged(
    wrong_below: float, limit: float | None, verdicts: list[bool | None]
) -> None:
    claims = trust._claims(COUNT, answers(400, wrong_below=wrong_below), limit)
    assert [claim.holds for claim in claims] == verdicts


def test_the_area_is_compared_with_that_of_the_score_by_picture() -> None:
    gain = trust._area_gain(answers(400, wrong_below=0.5), 200)
    assert gain.low > 0.1
    same = trust._area_gain(answers(400, wrong_below=0.5, ranked=False), 200)
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_the_score_of_a_count_is_that_of_its_weakest_box() -> None:
    def score(*scores: float) -> float:
        known: Trace = trace()
        call = ToolCall(0, "find", (), {}, [], 0.0, judged_by=trust.DETECTOR, scores=scores)
        answering = replace(known.trials[0], tool_calls=(call,))
        return trust._score(replace(known, trials=(answering,)))

    assert score(0.9, 0.5, 0.3) == 0.5  # the threshold is .4
    assert score(0.3) == score() == 0


def test_a_calibration_without_confidence_is_refused(tmp_path: Path) -> None:
    data = real("models").parent
    path = tmp_path / "other.toml"
    path.write_text('extends = "photo-lite"\n')
    with pytest.raises(UsageError, match=r"has no \[confidence.checked\]"):
        trust.existence(PhotographJob(data, tmp_path / "out", True, path))


@pytest.mark.timeout(300)
def test_a_few_real_questions_are_answered_fitted_and_judged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = real("photos/tiny_coco").parents[1]
    monkeypatch.setattr(trust, "QUICK", 60)
    monkeypatch.setattr(trust, "_cost", lambda job: 2.0)
    job = PhotographJob(data, tmp_path, True)
    measured = trust.counting(job)
    assert [row.family for row in measured.rows[::5]] == [
        "photos/coco128",
        "photos/tiny_coco",
        "together",
    ]
    assert len(measured.claims) == 4 and measured.gains[0].difference.n == 120
    calibration = tmp_path / "calibration.toml"
    table = tomllib.loads(calibration.read_text())
    assert table["extends"] == "photo-lite" and set(table["confidence"]) == {"checked"}
    assert table["roles"]["detector"]["backend"] == "onnx"
    # what is stored is not answered again, and a calibration is not fitted again
    monkeypatch.setattr(trust, "fit_confidence", lambda _: (Confidence(), None))
    again = trust.counting(PhotographJob(data, tmp_path, True, calibration))
    assert again.rows[0].n == 60 and calibration.read_text()
