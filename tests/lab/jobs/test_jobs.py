"""The study of jobs: truths of the world, and what is claimed from rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viper.jobs.candidates import Candidate
from viper.jobs.cases import Label
from viper.jobs.evidence import Evidence
from viper.jobs.rules import Measure
from viper.storage.json_lines import append_line
from viper_lab.jobs.report import reproduction
from viper_lab.jobs.simulated import Simulated, audited, reviewed
from viper_lab.jobs.study import Row, read_rows, realised
from viper_lab.jobs.world_jobs import JOBS, draw


def test_a_third_of_the_jobs_is_vague_and_two_are_about_clips() -> None:
    assert len(JOBS) == 24
    assert sum(job.vague for job in JOBS) == 6
    assert sum(job.clip for job in JOBS) == 2
    assert len({job.name for job in JOBS}) == len({job.query for job in JOBS}) == 24


@pytest.mark.parametrize("name", ["things", "safe", "leftmost", "line"])
def test_pictures_are_labelled_by_the_truth_and_drawn_once(name: str, tmp_path: Path) -> None:
    job = next(job for job in JOBS if job.name == name)
    labels = draw(job, "val", 0, 10, tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert draw(job, "val", 0, 10, tmp_path) == labels
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    if name in ("safe", "line"):
        assert max(Counter(label.answer for label in labels).values()) <= 6
    if name == "leftmost":
        assert all(len(label.answer) == 4 for label in labels)


def row(job: str = "a", **changes: object) -> Row:
    facts = {
        "job": job, "group": "plain", "size": 60, "seed": 0, "fitted": (True,) * 9 + (False,),
        "zero_shot": (True, False) * 5, "neighbours": (True,) * 5 + (False,) * 5,
        "majority": (False,) * 10, "estimate": 0.85, "low": 0.8, "high": 0.95, "warned": False,
        "risk": 0.1, "certified": True, "bound": 0.09, "given": (True,) * 9 + (False,),
        "seconds": 60.0, "requests": 24, "program": "", "origin": "",
    }  # fmt: skip
    return Row(**{**facts, **changes})  # type: ignore[arg-type]


def test_claims_are_judged_from_the_rows(tmp_path: Path) -> None:
    rows = [row(), row("b", fitted=(False,) * 10, neighbours=(True,) * 10, low=0.5, warned=True)]
    for each in rows:
        append_line(tmp_path / "rows.jsonl", each)
    assert [*read_rows(tmp_path).values()] == rows
    claims = {claim.claim: claim.holds for claim in reproduction(rows, [], {}).claims}
    assert claims == {
        "fitted above zero-shot by 10 points on average": False,
        "no job worse by more than 3 points beyond its interval": False,
        "wins or ties with neighbours and majority in 30 of 36": False,
        "where it loses the report said so: 80 %": True,
        "the interval holds the test accuracy in 85 % of jobs": False,
        "mean width at 20 labels at most 0.40": None,
        "mean width at 60 labels at most 0.25": False,
        "from 60 labels on the risk is surely broken in at most 10 % of jobs": False,
        "median coverage at risk .10 at least 50 %": True,
        "20 labels: at most 3 minutes and 40 requests": None,
        "review needs 25 % fewer labels than random order, interval above 0": None,
        "of planted wrong labels 60 % are in the most suspected tenth": None,
    }


def test_a_risk_is_broken_only_beyond_the_error_of_the_test() -> None:
    assert realised(row()) == (0.0, False)
    one = row(given=(True,) * 10)
    assert realised(one) == (0.1, False)
    many = row(fitted=(False,) * 6 + (True,) * 4, given=(True,) * 10)
    assert realised(many) == (0.6, True)


def test_review_and_audit_are_judged_where_they_can_matter() -> None:
    split = Simulated("a", "plain", 0, 0, 80, 20, 40, 12, 9, 3)
    same = replace(split, split=1, review=10, random=10)
    claims = {claim.claim[:6]: claim for claim in reproduction([row()], [split, same], {}).claims}
    assert claims["review"].reason.startswith("50.0 %")
    assert "1 of 2 splits" in claims["review"].reason
    assert claims["of pla"].holds
    assert "25.0 %" in claims["of pla"].reason


def _evidence(classes: Any, values: Any) -> Evidence:
    nothing = np.zeros((0, len(classes)))
    return Evidence([str(i) for i in range(len(classes))], [], nothing.astype(int),
                    nothing.astype(bool), ["no", "yes"], 2, classes, [Measure("m")],
                    values[None, :, None], values[:, None])  # fmt: skip


def test_a_reviewer_labels_what_the_programs_disagree_about() -> None:
    """The likelier program is wrong about a quarter of the cases, which alone tell them apart."""
    draw = np.random.default_rng(0)
    classes = draw.integers(0, 2, 240)
    answers = np.stack([np.where(draw.random(240) < 0.25, 1 - classes, classes), classes])
    found = replace(
        _evidence(classes, np.zeros(240)), measures=[], values=np.zeros((1, 240, 0)),
        candidates=[Candidate("likely"), Candidate("right", bits=30.0)], answers=answers,
        right=answers == classes,
    )  # fmt: skip
    needed = [reviewed(found, np.random.default_rng(split)) for split in range(8)]
    assert all(10 < review < size for review, _, size in needed)
    assert sum(review for review, *_ in needed) < sum(by_random for _, by_random, _ in needed)


def test_planted_labels_contradict_what_explains_the_others() -> None:
    values = np.random.default_rng(1).integers(0, 6, 100).astype(float)
    labels = [Label((f"{i}.png",), "many?", "question", "yes" if value >= 3 else "no")
              for i, value in enumerate(values)]  # fmt: skip

    def of_labels(changed: Sequence[Label]) -> Evidence:
        return _evidence(np.array([int(label.answer == "yes") for label in changed]), values)

    planted, found, _ = audited(labels, of_labels, [0.0] * 100, np.random.default_rng(2), 0)
    assert (planted, found) == (10, 10)
