"""The kind of answer is read from the words of a question, and a value is held against it."""

import pytest

from viper.prompting.builder import chat_query
from viper.prompting.expected_answer import expected_answer
from viper.schema import Query

KINDS = {
    "is there a red cube?": "yes/no",
    "Hi there! Is everything in this one brown?": "yes/no",
    "can you tell me whether the ball is red": "yes/no",
    "tell me if the ball is red": "yes/no",
    "How many red things are there?": "number",
    "could you count how many cubes there are": "number",
    "can you count fewer cubes than red balls?": "yes/no",
    "could you count at least two cones?": "yes/no",
    "could you count more carefully how many cones there are?": "number",
    "Count the cubes behind the ring.": "number",
    "If I took both cones away, how many objects would I have left?": "number",
    "What colour is the cube?": "color",
    "the leftmost cube is what color?": "color",
    "which is bigger, the cube or the ball?": "either",
    "The cube in the middle, is it shiny or dull?": "either",
    "are there more cubes or balls?": "either",
    "when does the ball stop?": "time",
    "just by looking, can you tell what the ring is made out of?": "thing",
    "do you happen to know what the lowest object is?": "thing",
    "The ball falls. Can you tell me what happens next?": "thing",
    "toward which border, left or right, has somebody pushed the cube?": "thing",
    "would you know the colour of the ball?": "color",
    "would you mind counting the cones?": "number",
    "could you sum the tins and the barrels for me?": "number",
    "do you know if the ball is red?": "yes/no",
    "can you see a red ball?": "yes/no",
    "what about the biggest thing, is that a ring?": "yes/no",
    "The ball moves: true or false?": "yes/no",
    "is the number of cubes one or more?": "yes/no",
    "which two things touch?": "two",
    "There is only one thing that isn't shiny. What is it?": "thing",
    "where is the cup": "thing",
    "what is next to the ring, any guess?": "thing",
}

OPEN = (
    "the red cube",
    "is there a cube or a ball left of it?",
    "do you see any ring or cone?",
    "not sure what that ring is made of, any help?",
    "please give the name of the nearest thing, do you know",
    "I can't make out what is nearest to the ball, can you?",
    "count both: which are more, cubes or balls?",
    "does anything move, and if so how many?",
    "Is the man to the left or to the right of the car?",
)


@pytest.mark.parametrize(("question", "kind"), KINDS.items())
def test_the_kind_is_read_from_the_words(question: str, kind: str) -> None:
    expected = expected_answer(question)
    assert expected is not None and expected.kind == kind


@pytest.mark.parametrize("question", OPEN)
def test_words_that_can_be_read_in_two_ways_expect_nothing(question: str) -> None:
    assert expected_answer(question) is None


@pytest.mark.parametrize(
    ("question", "fitting", "others"),
    [
        ("is it red?", [True, "no", "Yes, it is."], ["cube", 3, "red"]),
        ("how many cubes?", [0, "2", "three", "none", 4.0], [-1, 2.5, "red", True]),
        ("what color is it?", ["red", "dark blue", "reddish"], ["cube", True, 2, "metal"]),
        ("is it a cube or a ring?", ["ring", "the red cube", "neither"], ["ball", True, 2]),
        ("which two things touch?", ["cube and ring", "cube, ring"], ["cube", 2]),
        ("what is it?", ["cube", 2], [True, "no"]),
    ],
)
def test_a_value_fits_or_not(question: str, fitting: list, others: list) -> None:
    expected = expected_answer(question)
    assert expected is not None
    assert [value for value in fitting if not expected.fits(value)] == []
    assert [value for value in others if expected.fits(value)] == []


def test_alternatives_may_be_answered_by_a_synonym() -> None:
    expected = expected_answer("is it shiny or dull?")
    assert expected is not None and not expected.fits("rubber")
    assert expected.fits("rubber", lambda text: text.replace("dull", "rubber"))


def test_a_chat_prompt_says_what_is_expected() -> None:
    assert chat_query(Query("is it red?", "question")).endswith("Expected answer: yes or no.")
    either = chat_query(Query("is it a cube or a ring?", "question"))
    assert either.endswith("Expected answer: 'cube' or 'a ring'.")
    assert chat_query(Query("what is left of it", "ground")) == "what is left of it"


def test_a_text_too_long_for_a_question_expects_nothing() -> None:
    assert expected_answer("is there " + "-" * 20_000 + " or b c d e f g") is None
