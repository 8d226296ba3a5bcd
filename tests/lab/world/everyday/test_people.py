"""People's questions: what is asked, and which answers agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.everyday import DATA, PEOPLE, Asked, agrees, outside, people
from viper.schema import Answer


@pytest.mark.parametrize(
    ("given", "accepted", "right"),
    [
        ("from above", ["from above"], True),
        ("from the left", ["from above"], False),
        ("the red cube", ["red cube", "cube"], True),
        ("the blue cube", ["red cube", "cube"], False),
        ("two", ["2"], True),
    ],
)
def test_answers_agree_by_their_words(given: str, accepted: list[str], right: bool) -> None:
    asked = Asked("?", "scene", "test", 0, accepted, ())
    assert agrees(Answer(given, "text"), asked) == right
    assert not agrees(None, asked)


@pytest.mark.parametrize("name", PEOPLE)
def test_every_question_has_an_answer_and_its_options_hold_it(name: str) -> None:
    asked = list(people(name))
    assert len(asked) >= 94 and len({each.question + str(each.index) for each in asked}) > 90
    for each in asked:
        assert each.question and each.answers and each.sorts[0] in ("stills", "clips")
        if each.options:
            given = [agrees(Answer(option, "text"), each) for option in each.options]
            assert any(given), each.question


def test_no_newcomer_saw_a_picture_of_earlier_questions() -> None:
    indices = {
        name: {json.loads(line)["index"] for line in (DATA / file).read_text().splitlines()}
        for name, file in PEOPLE.items()
    }
    assert not indices["newcomers"] & (indices["people"] | indices["development"])


def test_questions_outside_are_of_four_kinds_in_both_halves(tmp_path: Path) -> None:
    kinds = {"photo", "absent word", "language", "blank"}
    test, development = (list(outside(split, tmp_path)) for split in ("test", "development"))
    assert len(test) >= 150 and len(development) > 80
    for half in (test, development):
        assert {each.sorts[0] for each in half} == kinds
        assert all(
            (each.picture is not None) == (each.sorts[0] in ("photo", "blank")) for each in half
        )
    blank = next(each for each in test if each.sorts == ["blank"])
    assert blank.load().images[0].shape[0] <= 8
