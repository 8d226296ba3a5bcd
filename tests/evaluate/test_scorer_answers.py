"""Exact match and soft accuracy, by hand and by property."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viper.agreement import normalise_answer
from viper.data.sample import Sample
from viper.evaluate.metrics.accuracy import (
    answer_correct,
    right_by_task,
    right_choice,
    right_statement,
)
from viper.evaluate.metrics.knowledge import soft_accuracy, stemmed, vqa_normalised
from viper.evaluate.sample_result import Prediction

WORDS = st.text(st.sampled_from("abens 0123.,-_'?!THtwo\t²İ½"), max_size=12) | st.text(max_size=12)


@pytest.mark.parametrize(
    ("prediction", "target"),
    [
        (True, "yes"),
        ("False", "no"),
        (2.0, "2"),
        ("2.00", "two"),
        (0.5, ".5"),
        ("1,000", "1000"),
        ("The t-shirt.", "t-shirt"),
        ("fire_truck", "fire truck"),
        ("a dog", "dog"),
        ("A", "a"),
    ],
)
def test_the_same_answer(prediction: object, target: str) -> None:
    assert answer_correct(prediction, target)
    assert answer_correct(target, [str(prediction)])


@pytest.mark.parametrize(
    ("prediction", "target"),
    [
        (None, "none"),
        ("", ""),
        ("...", "?"),
        (-3, "3"),
        (1, "yes"),
        ("the", "a"),
        ("dogs", "dog"),
        ("1 3", "13"),
    ],
)
def test_not_the_same_answer(prediction: object, target: str) -> None:
    assert not answer_correct(prediction, target)


def test_one_of_several_targets_is_enough() -> None:
    assert answer_correct("couch", ("sofa", "the couch"))
    assert not answer_correct("chair", ("sofa", "the couch"))


@settings(deadline=None)
@given(WORDS)
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise_answer(normalise_answer(text)) == normalise_answer(text)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_both_sides_are_treated_alike(first: str, second: str) -> None:
    assert answer_correct(first, second) == answer_correct(second, first)


@pytest.mark.parametrize(
    ("said", "form"),
    [
        ("The dog's tail", "dog's tail"),
        ("dont know", "don't know"),
        ("couldntve", "couldntve"),
        ("couldn'tve", "couldn't've"),
        ("two, three", "2 3"),
        ("black/white", "black white"),
        ("none", "0"),
        ("1,000", "1000"),
        ("1,000 black/white", "1000 blackwhite"),
        ("3.5 in.", "3.5 in"),
        ("its", "its"),
        (True, "yes"),
        (7, "7"),
    ],
)
def test_the_form_of_the_vqa_challenge(said: object, form: str) -> None:
    assert vqa_normalised(said) == form


@pytest.mark.parametrize(
    ("matches", "expected"),
    [
        (0, 0.0),
        (1, 0.3),  # 9 subsets see one match: 9 * 1/3 / 10
        (2, 0.6),  # 2 subsets see 1, 8 see 2: (2 * 1/3 + 8 * 2/3) / 10
        (3, 0.9),  # 3 subsets see 2, 7 see 3: (3 * 2/3 + 7) / 10
        (4, 1.0),  # every subset sees at least 3
        (10, 1.0),
    ],
)
def test_leaving_one_annotator_out(matches: int, expected: float) -> None:
    answers = ["The Dog"] * matches + [f"cat {index}" for index in range(10 - matches)]
    assert soft_accuracy("dog", answers) == expected


@settings(deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=12))
def test_leaving_out_is_the_mean_over_the_subsets(answers: list[str]) -> None:
    by_hand = [
        min(Fraction(1), Fraction((answers[:out] + answers[out + 1 :]).count("b"), 3))
        for out in range(len(answers))
    ]
    assert soft_accuracy("b", answers) == float(sum(by_hand) / len(answers))


def test_no_answer_is_never_right_and_a_single_annotator_must_be_matched() -> None:
    assert soft_accuracy(None, [""] * 10) == soft_accuracy("the", ["a"] * 10) == 0.0
    assert soft_accuracy("dog", ["dog"]) == 1.0
    assert soft_accuracy("dog", []) == 0.0


def test_stems_are_of_both_sides() -> None:
    answers = ["running dogs"] * 10
    assert soft_accuracy("run dog", answers) == 0.0
    assert soft_accuracy("run dog", answers, stemmed) == 1.0
    assert soft_accuracy("run dog", [stemmed(one) for one in answers], stemmed) == 1.0


def is_right(said: object, target: object) -> bool:
    return right_statement(Sample("s", "?", "statement", "image", target, list), Prediction(said))


@pytest.mark.parametrize("said", ["true", "TRUE", True])
def test_statements_are_compared_without_case(said: object) -> None:
    assert is_right(said, True) and is_right(said, "True")
    assert not is_right(said, False)


@pytest.mark.parametrize("said", [" true", "yes", "", None, 1, "1", [], float("nan")])
def test_no_truth_value_is_never_right(said: object) -> None:
    assert not is_right(said, True) and not is_right(said, False)


def test_a_missing_prediction_is_wrong() -> None:
    boxed = Sample("s", "?", "ground", "image", (0, 0, 1, 1), list)
    assert not right_by_task(boxed, Prediction(None))
    assert not answer_correct(None, "none")
    assert not right_choice(Sample("s", "?", "choice", "image", 0, list), Prediction(None))


@pytest.mark.parametrize(
    ("prediction", "target"), [("The Cube.", "cube"), (3, "three"), (True, "yes"), ("two", "2")]
)
def test_both_sides_are_normalised_alike(prediction: object, target: str) -> None:
    assert answer_correct(prediction, target)
    assert normalise_answer(prediction) == normalise_answer(normalise_answer(target))
