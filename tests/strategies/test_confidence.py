"""Confidence of answers: its features, the limit for a risk, and abstention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.strategies.bench import Bench, picture
from viper.errors import UsageError
from viper.schema import Answer, Check, RunWarning, ToolCall, Trace
from viper.strategies.confidence import Confidence, features, kind_of, probability

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
    unknown = replace(known, warnings=(RunWarning("unknown_words", "."),))
    assert PLAIN.of(unknown) is None
    assert Confidence({**WEIGHTS, "warning:unknown_words": -1.0}).of(unknown) is None


def test_another_strategy_has_a_calibration_of_its_own_name() -> None:
    for calibrations, confidence in (({"plain": PLAIN}, None), ({"explore": PLAIN}, 0.8808)):
        with Bench(
            ["<code>\nfinal_answer = 2\n</code>", "<done></done>"],
            parts={"confidence": calibrations},
            prompt_style="chat",
        ) as bench:
            answer = bench.reasoner.run(picture(), "how many?", strategy="explore").answer
            assert answer is not None and answer.confidence == confidence


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


def test_a_program_that_its_writer_finds_unlikely_is_unsure() -> None:
    def unsure(logprob: float | None) -> float | None:
        known = trace()
        answering = replace(known.trials[0], logprob=logprob)
        return features(replace(known, trials=(answering,))).get("unsure")

    assert (unsure(-0.25), unsure(-90.0), unsure(None)) == (0.25, 4.0, None)


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


def test_a_promise_allows_for_a_whole_picture_of_wrong_answers() -> None:
    steps = ((0.9, 50, 1), (0.8, 100, 6))
    assert Confidence({}, steps).limit(0.08) == 0.8
    assert Confidence({}, steps, unit=4.0).limit(0.08) is None
    assert Confidence({}, steps, unit=4.0).limit(0.1) == 0.8


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


def test_a_program_that_looked_at_nothing_has_no_confidence() -> None:
    unsupported = replace(trace(), warnings=(RunWarning("unsupported", "."),))
    assert PLAIN.of(unsupported) is None


def test_a_given_program_has_the_confidence_of_given_programs_alone() -> None:
    given = Confidence({**WEIGHTS, "given": 0.0}, STEPS)
    for calibration, known in ((PLAIN, False), (given, True)):
        with Bench([], parts={"confidence": {"plain": calibration}}) as bench:
            answer = bench.reasoner.execute(PROGRAM, picture()).answer
            assert answer is not None and (answer.confidence is not None) == known
            with pytest.raises(UsageError, match="promises for no confidence"):
                bench.reasoner.execute(PROGRAM, picture(), abstain=0.01)


def test_runs_with_checks_have_a_calibration_of_their_own() -> None:
    parts = {"confidence": {"plain": PLAIN, "checked": Confidence({"task:question": -9.0})}}
    with Bench([PROGRAM, PROGRAM], parts=parts) as bench:
        plain = bench.reasoner.run(picture(), "how many cubes are there?").answer
        checked = bench.reasoner.run(picture(), "how many cubes are there?", checks=True).answer
    assert plain is not None and checked is not None
    assert plain.confidence == 0.8808 and checked.confidence == pytest.approx(0, abs=1e-3)


def test_answers_of_a_kind_have_their_own_confidence_and_limit() -> None:
    numbers = Confidence({"task:question": -1.0}, ((0.6, 50, 1), (0.2, 100, 20)))
    both = replace(PLAIN, kinds={"number": numbers})
    answer = ask(both).answer
    assert answer.confidence == pytest.approx(0.2689) and kind_of(answer) == "number"
    refused = ask(both, abstain=0.05)
    assert refused.answer is None and "asks for 0.60" in refused.failure.message
    assert ask(both, abstain=0.3).answer is not None
    unpromised = replace(PLAIN, kinds={"number": replace(numbers, steps=())})
    assert "than was ever measured" in ask(unpromised, abstain=0.05).failure.message


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(True, "truth"), "truth"),
        (Answer("yes", "text"), "truth"),
        (Answer("two", "text"), "number"),
        (Answer(3, "number"), "number"),
        (Answer("\u1369", "text"), "text"),  # a digit that is no number
        (Answer("red", "text"), "text"),
        (Answer([1, 2, 3, 4], "box", box=(1, 2, 3, 4)), "box"),
    ],
)
def test_kinds_of_answers(answer: Answer, kind: str) -> None:
    assert kind_of(answer) == kind


def test_what_passed_or_failed_a_threshold_is_measured_over_the_run_and_its_checks() -> None:
    def values(*scores: float, checks: tuple[float | None, ...] = ()) -> dict[str, float]:
        known = trace()
        call = ToolCall(0, "find", (), {}, [], 0.0, judged_by="detector.threshold", scores=scores)
        made = tuple(Check("relation", "x", True, "", "", margin) for margin in checks)
        answering = replace(known.trials[0], tool_calls=(call,))
        return features(replace(known, trials=(answering,), checks=made))

    two = values(0.9, 0.5, checks=(1.0, None))
    assert two["passed"] == pytest.approx((2.603 + 1.0) / 2, abs=0.01)
    assert two["weakest"] == pytest.approx(0.405, abs=0.01) and "none" not in two
    assert two["count"] == pytest.approx(0.693, abs=0.01)
    none = values(0.2, checks=(1.0,))
    assert none["none"] == 1 and none["missed"] == pytest.approx((0.981 - 1) / 2, abs=0.01)
    assert values()["missed"] == 4


def test_a_number_of_thousands_of_digits_is_a_number_like_others() -> None:
    known = trace()
    huge = replace(known, answer=Answer("9" * 4000, "text"))
    assert features(huge)["count"] == pytest.approx(13.8, abs=0.1)
    assert PLAIN.of(huge) is not None
