"""Agreement in a label's place: which program is kept, with which score, or why none is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ace.test_bank import EXAMPLE
from viper.ace.select import Answered, Candidate, agreed

BOX = (0.0, 0.0, 10.0, 10.0)
NEAR = (0.0, 0.0, 10.0, 8.0)
FAR = (50.0, 50.0, 60.0, 60.0)


def ran(answer: Answered | None, program: str = "f('x')", seed: int = 0) -> Candidate:
    return Candidate(replace(EXAMPLE, program=program, seed=seed, score=0.0), answer)


def kept(*media: list[Candidate], at_least: int = 2) -> tuple[str, float] | str:
    verdict = agreed(media, at_least)
    if verdict.example is None:
        return verdict.why
    assert verdict.why == "agreed"
    return verdict.example.program, verdict.example.score


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["red", "Red.", "the red"], 1.0),
        (["red", "red", "blue", "green"], 0.5),
        ([BOX, NEAR, FAR], 0.6667),
        (["1", "one", None, None], 0.5),
        (["True", "yes", "no"], 0.6667),
    ],
)
def test_the_score_is_the_share_that_agrees(
    answers: list[Answered | None], expected: float
) -> None:
    assert kept([ran(answer) for answer in answers]) == ("f('x')", expected)


def test_too_few_that_agree_keep_nothing() -> None:
    assert kept([ran("red"), ran("blue"), ran("green")]) == "disagreed"
    assert kept([ran("red"), ran("red"), ran("green")], at_least=3) == "disagreed"
    assert kept([ran(BOX), ran(FAR)]) == "disagreed"


def test_agreement_does_not_add_up_over_media() -> None:
    assert kept([ran("red")], [ran("red")], [ran("red")]) == "disagreed"


def test_queries_that_nothing_answered_or_that_were_not_asked() -> None:
    assert kept([ran(None), ran(None)]) == "unanswered"
    assert kept([ran("..."), ran("")]) == "unanswered"
    assert kept([], []) == kept() == "unasked"


def test_the_odd_program_is_never_kept() -> None:
    odd = ran("blue", "x")
    assert kept([odd, ran("red", "long()"), ran("red", "longer()")]) == ("long()", 0.6667)


def test_a_medium_that_the_query_does_not_fit_counts_for_nothing() -> None:
    fits, not_at_all = [ran("red"), ran("red")], [ran(None), ran(None)]
    assert kept(fits, not_at_all) == ("f('x')", 1.0)
    assert kept(fits, [ran("red"), ran("blue")]) == ("f('x')", 0.75)
    assert kept(fits, []) == ("f('x')", 1.0)


def test_the_commonest_shape_over_all_media_wins() -> None:
    first = [ran("red", "g()", 0), ran("red", "find('a thing')", 1)]
    second = [ran("2", "find('it')", 2), ran("2", "find('a thing')", 3)]
    assert kept(first, second) == ("find('it')", 1.0)
    # A shape that is common among programs that do not agree does not count.
    assert kept(first, [ran("2", "find('it')"), ran("3", "find('it')")], at_least=2)[0] == "g()"


def test_of_equal_ones_the_shorter_then_the_earlier_is_kept() -> None:
    several = [ran("red", "f('longer')", 0), ran("red", "f('b')", 2), ran("red", "f('a')", 1)]
    assert kept(several) == ("f('a')", 1.0)


def test_the_larger_group_wins_and_of_equal_ones_the_earlier() -> None:
    colors = ["red", "blue", "blue", "red"]
    drawn = [ran(color, f"say('{color}')") for color in colors]
    assert kept(drawn) == ("say('red')", 0.5)
    assert kept([*drawn, ran("blue", "say('blue')")])[0] == "say('blue')"
