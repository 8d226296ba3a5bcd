"""200 questions of every kind: what viper takes them for, and that no right answer is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from viper.models.media import Media
from viper.prompting.expected_answer import expected_answer
from viper.schema import Answer, Failure, Query
from viper.strategies.answers import read_answer, wrong_type
from viper.strategies.tasks import resolve_task
from viper.tools.settings import ToolSettings

QUESTIONS = [
    json.loads(line)
    for line in Path(__file__).with_name("kinds.jsonl").read_text(encoding="utf-8").splitlines()
]
MEDIA = Media([np.zeros((8, 8, 3), np.uint8)])


def guessed(text: str) -> str | None:
    """Return the task that a text is taken for, or the kind of answer to a question."""
    task, _ = resolve_task(Query(text))
    expected = expected_answer(text) if task == "question" else None
    return (
        expected.kind
        if expected
        else {"question": None, "ground": "box", "tag": "boxes"}.get(task, task)
    )


def test_most_kinds_are_guessed_and_hardly_one_is_wrong() -> None:
    pairs = [(each["kind"], guessed(each["query"]), each["query"]) for each in QUESTIONS]
    told = [pair for pair in pairs if pair[1] is not None]
    wrong = [pair for pair in told if pair[0] != pair[1]]
    assert len(pairs) >= 200
    assert len(told) >= 0.8 * len(pairs)
    assert len(wrong) <= 0.02 * len(told), wrong


@pytest.mark.parametrize(
    "each", [each for each in QUESTIONS if "answer" in each], ids=lambda e: e["query"]
)
def test_no_right_answer_is_refused(each: dict) -> None:
    query = Query(each["query"], "question")
    answer = read_answer(each["answer"], query, MEDIA)
    assert isinstance(answer, Answer), answer
    assert wrong_type(answer, query, ToolSettings()) is None


@pytest.mark.parametrize(
    ("query", "returned", "value"),
    [
        ("how many cubes?", "three", 3),
        ("how many cubes?", "about 3", 3),
        ("how many cubes?", "3 or 4", "3 or 4"),
        ("how many people?", "nobody", 0),
        ("how many eggs?", "a dozen", 12),
        ("what color is the roof?", "The roof of the tall house is brown", "brown"),
        ("which colors are there?", ["red", "blue"], "red, blue"),
        ("what is there?", {"cubes": 2, "balls": 1}, "cubes: 2, balls: 1"),
        ("which of them are red?", [True, False], "yes, no"),
    ],
)
def test_numbers_in_words_lists_and_sentences_are_read(
    query: str, returned: object, value: object
) -> None:
    answer = read_answer(returned, Query(query, "question"), MEDIA)
    assert isinstance(answer, Answer) and answer.value == value


@pytest.mark.parametrize("value", [{"cubes": 2, "first": object()}, [1, object()], [], {}])
def test_a_list_that_holds_other_things_is_no_answer(value: object) -> None:
    answer = read_answer(value, Query("what is there?", "question"), MEDIA)
    assert isinstance(answer, Failure) and answer.kind == "return_type"


def test_a_sentence_without_one_color_is_none() -> None:
    expected = expected_answer("what color is it?")
    assert expected is not None
    assert not expected.fits("The left one is red while the one behind it is blue")
