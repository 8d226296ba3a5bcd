"""Comments in words: the answer is read where it is stated for sure, and nowhere else."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from viper.schema import Answer, Query
from viper.tuning.comments import LONGEST_READ, read_comment

FAMILIES = (
    ("red", "green", "blue", "brown"),
    ("metal", "rubber"),
    ("cube", "ball", "cone", "ring", "pyramid"),
)
COLOR = Query("what color is the ball left of the cube?", "question")
SHAPE = Query("what shape is the left thing?", "question")
COUNT = Query("how many cones are there?", "question")
IS_IT = Query("is there a cone?", "question")
EVENT = Query("what comes first?", "choice", "video", ("the ball stops", "the cube falls"))
MANY = Query("what comes first?", "choice", "video", (*EVENT.options, "the ring appears"))
BOTH = Query("both pictures show dogs", "statement", "images")
BLUE, PYRAMID, TWO, YES, NO = (Answer(v, "text") for v in ("blue", "pyramid", 2, "yes", "no"))
FALLS = Answer("the cube falls", "choice", choice_index=1)


def desired(comment: str, query: Query, answer: Answer | None) -> Any:
    return read_comment(comment, query, answer, FAMILIES).desired


@pytest.mark.parametrize(
    ("comment", "query", "answer", "expected"),
    [
        ("the left one is a cone, not a pyramid", SHAPE, PYRAMID, "cone"),
        ("the left one is a cone, not a pyramid", COUNT, TWO, None),
        ("the left one is a cone, not a pyramid", SHAPE, None, "cone"),
        ("it's red", COLOR, BLUE, "red"),
        ("It isn’t blue, it's RED!", COLOR, BLUE, "red"),
        ("should have been brown", COLOR, BLUE, "brown"),
        ("the ball is red; it took the ring", COLOR, BLUE, "red"),
        ("no the color is red", COLOR, BLUE, "red"),
        ("the right answer is dark green.", COLOR, BLUE, "dark green"),
        ("metal", COLOR, BLUE, None),
        ("not blue", COLOR, BLUE, None),
        ("red or green", COLOR, BLUE, None),
        ("the answer is wrong", COLOR, BLUE, None),
        ("it should look at the red ball", COLOR, BLUE, None),
        ("the ring next to it is red", COLOR, BLUE, None),
    ],
)
def test_words(comment: str, query: Query, answer: Answer | None, expected: Any) -> None:
    assert desired(comment, query, answer) == expected


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("it should be 3", 3), ("wrong: there are three", 3), ("3", 3), ("no. there are 4", 4),
        ("not 2 but 4", 4), ("there are 3, not 2", 3), ("i count 5 cones", 5), ("none", 0),
        ("there are no cones", 0), ("there is only one cone", 1), ("there is one", 1),
        ("you counted the ring too, so 1", 1), ("there are 2", 2),
        ("one more", None), ("one is hidden", None), ("two missing", None), ("no", None),
        ("wrong, there are 2", None), ("there are 3 balls", None),
        ("there are 3 cones and 1 ball", None), ("3 or 4", None), ("the left one is a ball", None),
    ],
)  # fmt: skip
def test_numbers(comment: str, expected: int | None) -> None:
    assert desired(comment, COUNT, TWO) == expected


@pytest.mark.parametrize(
    ("comment", "to_yes", "to_no"),
    [
        ("no", "no", None), ("yes", "yes", None), ("No!", "no", None), ("wrong", "no", "yes"),
        ("that's not true", "no", "yes"), ("no, there isn't", "no", None),
        ("it should be yes", "yes", "yes"), ("the answer is no", "no", "no"),
        ("the answer is yes, the answer is no", None, None), ("correct", "yes", "no"),
        ("yes, correct", "yes", "no"), ("there are two", None, None), ("no, yes", None, None),
    ],
)  # fmt: skip
def test_yes_and_no(comment: str, to_yes: str | None, to_no: str | None) -> None:
    assert desired(comment, IS_IT, YES) == to_yes
    assert desired(comment, IS_IT, NO) == to_no


@pytest.mark.parametrize(
    ("comment", "answer", "expected"),
    [
        ("false", True, False), ("false", False, None), ("it is true", False, True),
        ("wrong", False, True), ("correct", False, False), ("no", True, False),
    ],
)  # fmt: skip
def test_statements(comment: str, answer: bool, expected: bool | None) -> None:
    assert desired(comment, BOTH, Answer(answer, "truth")) is expected


@pytest.mark.parametrize(
    ("comment", "query", "expected"),
    [
        ("it was the ball stops", EVENT, 0), ("no", EVENT, 0), ("no", MANY, None),
        ("not the cube falls but the ring appears", MANY, 2), ("The ball stops.", MANY, 0),
        ("the ball stops before the ring appears", MANY, None), ("correct", MANY, 1),
        ("it looked at the wrong clip", EVENT, None),
    ],
)  # fmt: skip
def test_options(comment: str, query: Query, expected: int | None) -> None:
    assert desired(comment, query, FALLS) == expected


def test_options_of_yes_and_no() -> None:
    query = Query("does the ball stop?", "choice", "video", ("no", "yes"))
    assert desired("wrong", query, Answer("yes", "choice", choice_index=1)) == 0
    assert desired("no", query, Answer("no", "choice", choice_index=0)) is None


def test_praise() -> None:
    box = Answer([1, 2, 3, 4], "box", box=(1.0, 2.0, 3.0, 4.0))
    assert desired("perfect, thanks", Query("the cube", "ground"), box) == box.box
    assert desired("right", Query("the cube", "ground"), box) is None
    assert desired("right", COLOR, BLUE) is None and desired("correct", COLOR, BLUE) == "blue"
    assert desired("correct", COLOR, None) is None


def test_boxes_and_pictures_are_not_read() -> None:
    for task in ("ground", "edit", "tag"):
        query = Query("the cube", task)
        assert desired("it is red", query, None) is desired("no", query, None) is None


def test_what_is_not_read_says_why() -> None:
    assert "no comment" in read_comment(" ", COLOR, BLUE).why
    assert f"more than {LONGEST_READ}" in read_comment("x" * 999, COLOR, BLUE).why
    assert read_comment("red, green", COLOR, BLUE, FAMILIES).why == (
        "names several answers: red, green"
    )
    assert "objects" in read_comment("wrong, it is blue", COLOR, BLUE, FAMILIES).why


def test_any_text_is_read_without_an_error() -> None:
    random = Random(3)
    words = [
        "is",
        "not",
        "no",
        "3",
        "one",
        ":",
        ",",
        "the answer",
        "red",
        "it",
        "’s",
        "(",
        "*",
        "\0",
    ]
    queries = ((COLOR, BLUE), (COUNT, TWO), (IS_IT, NO), (EVENT, FALLS), (BOTH, None))
    for _ in range(400):
        comment = " ".join(random.choices(words, k=random.randint(1, 9)))
        for query, answer in queries:
            read_comment(comment, query, answer, FAMILIES)
