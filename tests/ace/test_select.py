"""Which programs become examples: scores, near-duplicates, types in turn, luck, chance, merging."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ace.test_bank import EXAMPLE
from viper.ace.bank import Bank, merged
from viper.ace.select import Answered, Candidate, Selection, best_first, same_answer, select, shape
from viper.schema import Example

RED = "def execute_command(image):\n    return ImagePatch(image).find('red cube')[0]"
BLUE = RED.replace("red", "a large blue")
SECOND = RED.replace("[0]", "[1]")


def example(sample_id: str, program: str = "p", kind: str = "", **changes: object) -> Example:
    return replace(EXAMPLE, sample_id=sample_id, program=program, kind=kind, **changes)  # type: ignore[arg-type]


def ran(
    sample_id: str,
    program: str = "p",
    kind: str = "",
    answer: Answered | None = "red",
    **changes: object,
) -> Candidate:
    return Candidate(example(sample_id, program, kind, **changes), answer)


def chosen(found: list[Candidate], **selection: object) -> list[str]:
    return [one.sample_id for one in select(found, Selection(**selection))]  # type: ignore[arg-type]


def test_what_scores_is_kept_best_first() -> None:
    found = [
        ran("half", score=0.49),
        ran("long", "longer", score=0.8),
        ran("short", "p", score=0.8),
        ran("best", "the longest", score=0.9),
        ran("failed", answer=None, score=1.0),
        ran("later", "p", score=0.8, seed=3),
    ]
    assert chosen(found) == ["best", "short", "long", "later"]
    assert chosen(found, keep=2) == ["best", "short"]
    assert chosen(found[:1]) == []


def test_a_tie_goes_to_the_earlier_seed() -> None:
    assert [e.seed for e in best_first([example("a", seed=2), example("b", seed=1)])] == [1, 2]


def test_kinds_take_turns() -> None:
    found = [
        ran("a", "long program", "nth"),
        ran("b", "short", "nth"),
        ran("c", "longer program", "nth"),
        ran("d", "the longest program", "middle"),
    ]
    assert chosen(found, keep=3) == ["b", "d", "a"]


def test_each_task_keeps_its_own() -> None:
    found = [ran("a"), ran("b", "pp"), ran("c", task="question"), ran("d", "pp", task="question")]
    assert sorted(chosen(found, keep=1)) == ["a", "c"]


def test_programs_that_differ_in_words_come_after_all_others() -> None:
    longest = RED.replace("return", "found = 1\n    return")
    found = [
        ran("red", RED, "nth"),
        ran("blue", BLUE, "nth"),
        ran("second", SECOND, "nth"),
        ran("other kind", longest, "unique"),
    ]
    assert chosen(found) == ["red", "other kind", "second", "blue"]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (BLUE, True),
        (f"# said\n{RED}", True),
        (SECOND, False),
        (RED.replace("find", "exists"), False),
        (RED.replace("image)", "picture)"), False),
    ],
)
def test_shapes(other: str, same: bool) -> None:
    assert (shape(RED) == shape(other)) is same


def test_a_program_that_does_not_parse_is_its_own_shape() -> None:
    assert shape("def (") == "def (" != shape("def )")


def test_a_sample_gives_one_example() -> None:
    found = [
        ran("a", "long", seed=0),
        ran("a", "p", seed=1),
        ran("a", "q", seed=2, score=0.4),
        ran("b", "pp"),
    ]
    assert [(one.sample_id, one.program) for one in select(found, Selection())] == [
        ("a", "p"),
        ("b", "pp"),
    ]


def test_luck_is_left_out_where_nothing_else_speaks_for_it() -> None:
    guess = "def execute_command(image):\n    return 'red'"
    alone = [ran("lucky", guess, "color"), ran("red", RED, "nth"), ran("blue", BLUE, "nth")]
    assert sorted(chosen(alone)) == ["blue", "lucky", "red"]
    assert sorted(chosen(alone, agree=True)) == ["blue", "red"]
    other_kind = [ran("lucky", guess, "color"), ran("elsewhere", guess, "material")]
    assert chosen(other_kind, agree=True) == []
    wrong_elsewhere = [ran("lucky", guess, "color"), ran("x", guess, "color", score=0.0)]
    assert chosen(wrong_elsewhere, agree=True) == []
    same_sample = [ran("lucky", guess, "color"), ran("lucky", guess, "color", "blue", seed=1)]
    assert chosen(same_sample, agree=True) == []


@pytest.mark.parametrize(
    ("others", "kept"),
    [
        (["red", "blue"], True),
        (["Red.", None], True),
        (["blue", "blue"], False),
        ([None, None], False),
        (["blue"], False),
        ([], False),
    ],
)
def test_most_programs_drawn_for_a_sample_speak_for_one(
    others: list[str | None], kept: bool
) -> None:
    drawn = [ran("a", RED), *(ran("a", f"q{n}", answer=o, score=0.0, seed=n + 1)
                              for n, o in enumerate(others))]  # fmt: skip
    assert chosen(drawn, agree=True) == (["a"] if kept else [])


def test_answers_are_compared_as_metrics_do() -> None:
    assert same_answer("The red", "red") and not same_answer("red", "blue")
    assert same_answer((0, 0, 10, 10), (0, 0, 10, 9))
    assert not same_answer((0, 0, 10, 10), (0, 0, 10, 3))
    assert not same_answer("red", (0, 0, 1, 1)) and not same_answer(None, None)


def test_a_random_choice_ignores_scores_and_goes_by_the_seed() -> None:
    found = [ran(f"s{n:02}", f"p{n}", score=float(n % 4 == 0)) for n in range(40)]
    found += [ran("failed", answer=None)]
    kept = select(found, Selection(keep=20, at_random=True))
    assert 0 < sum(one.score for one in kept) < 20 == len({one.sample_id for one in kept})
    assert "failed" not in {one.sample_id for one in kept}
    assert kept == select(found[::-1], Selection(keep=20, at_random=True))
    assert kept != select(found, Selection(keep=20, at_random=True, seed=1))


def test_banks_are_merged_best_first_each_example_once() -> None:
    one = Bank([example("a", "long", kind="x"), example("b", "p", kind="y", score=0.7)])
    other = Bank([example("a", "long", seed=9), example("a", "long", api="vipergpt"),
                  example("c", "pp", kind="y", score=0.6)])  # fmt: skip
    found = merged([one, other])
    assert [(e.sample_id, e.api, e.seed) for e in found] == [
        ("a", "abstract", 0), ("a", "vipergpt", 0), ("b", "abstract", 0), ("c", "abstract", 0),
    ]  # fmt: skip
    assert len(merged([one, other], keep=1)) == 2
    assert merged([Bank([])]) == []


def test_one_lucky_sample_supports_less_than_many() -> None:
    lucky = ran("s0", RED, "vague")  # right on 1 of 1 against 7 of 8
    meant = [ran(f"s{n}", f"{SECOND} # x", "vague", score=float(n < 7)) for n in range(8)]
    (first,) = select([lucky, *meant], Selection(agree=True, keep=1))
    assert first.program.startswith(SECOND)


def test_the_better_supported_reading_comes_first_though_it_is_longer() -> None:
    lucky = [ran(f"s{n}", RED, "vague", score=float(n < 2)) for n in range(8)]
    meant = [ran(f"s{n}", f"{SECOND} # x", "vague", score=float(n > 0)) for n in range(8)]
    assert chosen([*lucky, *meant], agree=True, keep=1) == ["s1"]
    (first,) = select([*lucky, *meant], Selection(agree=True, keep=1))
    assert first.program.startswith(SECOND)
    (shorter,) = select([*lucky, *meant], Selection(keep=1))
    assert shorter.program == RED
