"""Parts ``counting`` and ``existence``: the verdicts, and one run on real photographs."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.official import real
from tests.strategies.test_confidence import trace
from viper.errors import UsageError
from viper.profiles.wiring import load_profile
from viper.schema import ToolCall, Trace
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


def few_pictures(folder: Path, counts: dict[str, int]) -> Path:
    """The layout of the real data with so many pictures of each folder."""
    for name, count in counts.items():
        source, root = real(name), folder / name
        root.mkdir(parents=True)
        (root / "images").symlink_to(source / "images")
        document = json.loads((source / "instances.json").read_text())
        document["images"] = document["images"][:count]
        ids = {picture["id"] for picture in document["images"]}
        things = [each for each in document["annotations"] if each["image_id"] in ids]
        (root / "instances.json").write_text(json.dumps({**document, "annotations": things}))
    (folder / "models").symlink_to(real("models"))
    return folder


@pytest.mark.timeout(300)
def test_real_questions_are_answered_fitted_and_judged(tmp_path: Path) -> None:
    data = few_pictures(tmp_path / "data", {"photos/coco128": 32, "photos/tiny_coco": 5})
    measured = trust.counting(PhotographJob(data, tmp_path / "out"))
    families = [row.family for row in measured.rows[::5]]
    assert families == ["photos/coco128", "photos/tiny_coco", "together"]
    assert [row.n for row in measured.rows[::5]][-1] == measured.gains[0].difference.n
    assert len(measured.claims) == 4
    cost = float(measured.claims[3].reason.split(" x ")[0])
    assert 1.5 < cost < 4
    path = tmp_path / "out" / "calibration.toml"
    table = tomllib.loads(path.read_text())
    assert table["extends"] == "photo-lite" and set(table["confidence"]) == {"checked"}
    assert table["roles"]["detector"]["backend"] == "onnx"
    assert load_profile(str(path)).document.confidence["checked"].unit > 1
    # what an earlier run wrote fits nothing, and judges every picture
    again = trust.existence(PhotographJob(data, tmp_path / "again", calibration=path))
    assert again.rows[0].n > 50 and not (tmp_path / "again" / "calibration.toml").exists()
