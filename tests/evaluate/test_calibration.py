"""Fitting of confidence on labelled answers, and its measures."""

from __future__ import annotations

import numpy as np
import pytest

from viper.errors import UsageError
from viper.evaluate.calibration import STEPS, Labelled, fit_confidence, risk_coverage, steps_of


def drawn(count: int = 600) -> list[Labelled]:
    """Answers of which .95 are right without a warning and .4 with one."""
    random = np.random.default_rng(1)
    answers = []
    for _ in range(count):
        guessed = float(random.random() < 0.3)
        right = random.random() < (0.4 if guessed else 0.95)
        answers.append(Labelled({"task:question": 1.0, "warning:guessed": guessed}, bool(right)))
    return answers


def test_the_fit_gives_the_shares_that_the_samples_were_drawn_with() -> None:
    answers = drawn()
    confidence, held_out = fit_confidence(answers)
    doubted = np.array([answer.features["warning:guessed"] == 1 for answer in answers])
    assert held_out[doubted].mean() == pytest.approx(0.4, abs=0.07)
    assert held_out[~doubted].mean() == pytest.approx(0.95, abs=0.03)
    assert confidence.weights["warning:guessed"] < -2
    measured = risk_coverage(held_out.tolist(), [answer.right for answer in answers])
    assert measured.calibration_error.value < 0.05
    assert measured.at["70%"].value < measured.at["100%"].value
    limit = confidence.limit(0.08)
    assert limit is not None and held_out[doubted].max() < limit <= held_out[~doubted].max()


def test_a_held_out_confidence_does_not_know_its_own_label() -> None:
    answers = [Labelled({f"id:{i}": 1.0}, i % 2 == 0) for i in range(100)]
    _, held_out = fit_confidence(answers)
    right = held_out[::2]  # features that occur once tell nothing about the others
    assert right.mean() < held_out[1::2].mean() + 0.05


def test_answers_of_one_cluster_do_not_tell_of_each_other() -> None:
    answers = [Labelled({f"id:{i // 2}": 1.0}, i % 4 < 2, "", str(i // 2)) for i in range(200)]
    _, held_out = fit_confidence(answers)
    right = np.array([answer.right for answer in answers])
    assert held_out[right].mean() < held_out[~right].mean() + 0.05


def test_kinds_with_enough_answers_have_a_calibration_of_their_own() -> None:
    numbers = [each._replace(kind="number") for each in drawn(300)]
    truths = [each._replace(kind="truth", right=not each.right) for each in drawn(300)]
    few = [each._replace(kind="box") for each in drawn(20)]
    confidence, _ = fit_confidence([*numbers, *truths, *few])
    assert set(confidence.kinds) == {"number", "truth"}
    assert confidence.kinds["number"].weights["warning:guessed"] < -2
    assert confidence.kinds["truth"].weights["warning:guessed"] > 2
    assert confidence.kinds["number"].steps[-1][1] == 300


def test_a_failed_check_never_speaks_for_an_answer() -> None:
    answers = [Labelled({"failed:x": float(i % 2)}, i % 2 == 0 or i % 8 != 1) for i in range(200)]
    assert fit_confidence(answers)[0].weights["failed:x"] < -0.5
    turned = [Labelled(each.features, not each.right) for each in answers]
    assert fit_confidence(turned)[0].weights["failed:x"] == 0


@pytest.mark.parametrize("answers", [drawn(30), [Labelled({}, True)] * 80])
def test_too_few_answers_are_refused(answers: list[Labelled]) -> None:
    with pytest.raises(UsageError, match=r"answers, \d+ of them wrong; confidence needs at least"):
        fit_confidence(answers)


def test_steps_count_answers_and_errors_from_the_most_confident_down() -> None:
    confidence = np.array([0.9, 0.8, 0.8, 0.1])
    assert steps_of(confidence, np.array([True, True, False, False])) == (
        (0.9, 1, 0),
        (0.8, 3, 1),
        (0.1, 4, 2),
    )
    many = steps_of(np.linspace(0, 1, 5000), np.ones(5000, bool))
    assert len(many) == STEPS and many[-1][1] == 5000


def test_risk_by_coverage_of_a_perfect_and_of_a_reversed_order() -> None:
    right = [True] * 80 + [False] * 20
    perfect = risk_coverage(np.linspace(1, 0, 100).tolist(), right)
    reverse = risk_coverage(np.linspace(0, 1, 100).tolist(), right)
    assert perfect.at["80%"].value == 0 and reverse.at["50%"].value == pytest.approx(0.4)
    assert perfect.area.value < 0.2 < reverse.area.value
    assert perfect.at["100%"].value == reverse.at["100%"].value == 0.2


def test_the_calibration_error_is_the_gap_between_confidence_and_share_of_right_answers() -> None:
    right = [True] * 50 + [False] * 50
    assert risk_coverage([0.5] * 100, right[::2] + right[1::2]).calibration_error.value <= 0.5
    sure = risk_coverage([0.9] * 100, [i % 2 == 0 for i in range(100)])
    assert sure.calibration_error.value == pytest.approx(0.4)
