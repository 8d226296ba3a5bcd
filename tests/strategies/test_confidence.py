"""Confidence of answers: its features, the limit for a risk, and abstention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.strategies.bench import Bench, picture
from viper.errors import UsageError
from viper.schema import Check, RunWarning, ToolCall, Trace
from viper.strategies.confidence import Confidence, features, judged, probability

PROGRAM = "def execute_command(image):\n    return len(ImagePatch(image).find('cube'))\n"
WEIGHTS = {"intercept": 2.0, "task:question": 0.0, "warning:guessed": -3.0}
STEPS = ((0.98, 10, 0), (0.95, 60, 1), (0.9, 100, 3), (0.5, 200, 30), (0.1, 240, 70))
PLAIN = Confidence(WEIGHTS, STEPS)


def trace(**settings: Any) -> Trace:
    with Bench([PROGRAM], **settings) as bench:
        return bench.reasoner.run(picture(), "how many cubes are there?").trace


def ask(confidence: Confidence, **settings: Any) -> Any:
    with Bench([PROGRAM], parts={"confidence": {"plain": confidence}}, **settings) as bench:
        return bench.reasoner.run(picture(), "how many cubes are there?")


def test_an_answer_has_the_probability_of_its_features() -> None:
    result = ask(PLAIN)
    assert result.answer.confidence == probability(WEIGHTS, {}) == pytest.approx(0.8808)
    guessed = replace(result.trace, warnings=(RunWarning("guessed", "."),))
    assert PLAIN.of(guessed) == pytest.approx(0.2689)


def test_nothing_is_known_of_other_tasks_other_pictures_and_other_strategies() -> None:
    known = trace()
    assert PLAIN.of(known) is not None
    assert PLAIN.of(replace(known, task="tag")) is None
    unlike = RunWarning("unlike_training_pictures", ".")
    assert PLAIN.of(replace(known, warnings=(unlike,))) is None
    other = judged(replace(known, strategy="seek"), {"plain": PLAIN}, mode="plain", risk=0)
    assert other.answer is not None and other.answer.confidence is None


def test_features_are_facts_of_checks_votes_trials_and_scores() -> None:
    checks = (
        Check("relation", "mirrored", False, "a", "b"),
        Check("relation", "brighter", True, "a", "a"),
        Check("exact", "exact input 1", False, "a", "b"),
        Check("exact", "exact input 2", True, "a", "a"),
    )
    values = features(replace(trace(), checks=checks, votes=(("a", 3), ("b", 1))))
    assert values["failed:mirrored"] == 1 and "failed:brighter" not in values
    assert (values["differs"], values["dissent"]) == (0.5, 0.25)


def test_candidates_near_their_threshold_are_doubtful() -> None:
    def doubt(*scores: float) -> float:
        call = ToolCall(0, "find", (), {}, [], 0.0, judged_by="detector.threshold", scores=scores)
        known = trace()
        answering = replace(known.trials[0], tool_calls=(call,))
        return features(replace(known, trials=(answering,)))["doubtful"]

    assert doubt(0.4) == pytest.approx(1.0)  # the threshold itself
    assert doubt(0.99) < doubt(0.6) < doubt(0.45) < doubt(0.45, 0.35)


@pytest.mark.parametrize(
    ("risk", "limit"),
    [(0.05, 0.9), (0.04, 0.9), (0.035, 0.95), (0.2, 0.5), (0.4, 0.1), (0.01, None)],
)
def test_the_limit_is_the_least_confidence_down_to_which_the_risk_holds(
    risk: float, limit: float | None
) -> None:
    assert PLAIN.limit(risk) == limit


def test_a_later_step_does_not_count_once_the_risk_was_exceeded() -> None:
    assert Confidence({}, ((0.9, 99, 1), (0.8, 120, 20), (0.7, 9_999, 20))).limit(0.05) == 0.9


def test_an_answer_below_the_limit_is_withheld_as_a_guess() -> None:
    result = ask(PLAIN, abstain=0.05)
    assert result.answer is None and result.value is None
    assert result.trace.guess is not None and result.trace.guess.confidence == 0.8808
    assert result.failure.kind == "abstained"
    assert result.failure.message == (
        "The confidence of the answer is 0.88; a risk of 0.05 asks for 0.90."
    )
    assert ask(PLAIN, abstain=0.2).answer is not None


def test_a_profile_that_promises_no_such_risk_is_refused_before_any_model() -> None:
    with pytest.raises(UsageError, match="viper learn confidence SET calibrates it"):
        ask(PLAIN, abstain=0.01)
    with pytest.raises(UsageError, match="no confidence of runs with verify"):
        ask(PLAIN, abstain=0.2, verify=True)
    with Bench([PROGRAM], parts={"confidence": {"plain": PLAIN}}) as bench:
        with pytest.raises(UsageError, match="abstain needs strategy program"):
            bench.reasoner.run(picture(), "what?", strategy="explore", abstain=0.2)
        assert not bench.llm.calls
