"""Several answers to one query: which are the same, which wins, when no more are asked for."""

from __future__ import annotations

import json

import pytest

from tests.strategies.bench import Bench, picture
from viper.commands.present import details
from viper.errors import UsageError
from viper.record import result_record
from viper.run_result import RunResult
from viper.schema import Answer, to_json
from viper.strategies.program import attempt_sampling
from viper.strategies.settings import RunSettings
from viper.strategies.voting import central, groups_of, is_decided, short_text

BROKEN = "def execute_command(image):\n    return nonsense\n"
FAINT = "def execute_command(image):\n    return ImagePatch(image).find('faint ball')[0]\n"


def saying(value: object, times: int = 0) -> str:
    """A program that returns the value; ``times`` makes another program of it."""
    return f"def execute_command(image):\n    return {value!r}{'  # again' * times}\n"


def boxed(left: int, name: str = "") -> str:
    """A program that returns the box (left, 40, left + 20, 60)."""
    return (
        f"def execute_command(image):\n    return ImagePatch(image).crop({left}, 0, {left + 20}, "
        f"20){name and '  # '}{name}\n"
    )


def ask(programs: list[str], **settings: object) -> tuple[RunResult, int]:
    """The result, and how many programs were written for it."""
    with Bench(programs, **{"votes": 3, **settings}) as bench:
        result = bench.reasoner.run(picture(), "what color is it?")
        return result, len(bench.llm.calls)


def word(value: str) -> Answer:
    return Answer(value, "text")


def box(*sides: float, index: int = 0) -> Answer:
    return Answer(list(sides), "box", box=sides, image_index=index)  # type: ignore[arg-type]


def test_the_most_frequent_answer_counts_with_its_trial_and_program() -> None:
    result, _ = ask([saying("red"), saying("the Blue."), saying("blue")])
    trace = result.trace
    assert result.answer is not None and result.answer.value == "the Blue."
    assert (trace.chosen, trace.votes) == (1, (("the Blue.", 2), ("red", 1)))
    assert result.program == saying("the Blue.").strip() and result.failure is None
    assert len(trace.trials) == 3 and all(trial.ok for trial in trace.trials)


def test_of_equally_many_the_earliest_counts() -> None:
    result, _ = ask([saying("red"), saying("blue"), saying("gray")])
    assert result.answer is not None and result.answer.value == "red"
    assert result.trace.chosen == 0


@pytest.mark.parametrize(
    ("votes", "programs", "written"),
    [
        (3, [saying("red"), saying("red", 1)], 2),
        (5, [saying("red"), saying("red", 1), saying("red", 2)], 3),
        (2, [saying("red")], 1),
        (4, [saying("red"), saying("red", 1)], 2),
        (4, [saying("red"), saying("blue"), saying("blue", 1), saying("blue", 2)], 4),
        (
            5,
            [saying("red"), saying("blue"), saying("blue", 1), saying("red", 1), saying("green")],
            5,
        ),
    ],
)
def test_what_can_change_nothing_is_not_asked(
    votes: int, programs: list[str], written: int
) -> None:
    assert ask(programs, votes=votes)[1] == written == len(programs)


def test_an_identical_program_votes_but_is_not_run_again() -> None:
    result, written = ask([saying("red"), saying("blue"), saying("blue")])
    assert written == 3 and len(result.trace.trials) == 2
    assert result.trace.votes == (("blue", 2), ("red", 1)) and result.trace.chosen == 1


def test_a_vote_that_was_tuned_is_reused_with_its_answer() -> None:
    with Bench([FAINT, boxed(60), FAINT], votes=3) as bench:
        result = bench.reasoner.run(picture(), "the faint ball")
    corrections = [trial.correction for trial in result.trace.trials]
    assert corrections == ["first", "self_tune", "first"]
    assert result.trace.chosen == 1
    assert result.answer is not None and result.answer.box == (1.0, 1.0, 9.0, 9.0)
    assert [call.tool for call in result.trace.tool_calls] == ["find"]


def test_failed_votes_do_not_count() -> None:
    programs = [BROKEN, saying("red"), saying("blue"), saying("gray")]
    result, _ = ask(programs, votes=4, trials=1)
    assert result.trace.votes == (("red", 1), ("blue", 1), ("gray", 1))
    assert result.answer is not None and result.trace.chosen == 1 and result.failure is None


def test_all_failed_is_a_failure() -> None:
    programs = [BROKEN, "return 3 +", "import os\nanswer = 1"]
    result, _ = ask(programs, trials=1)
    assert result.answer is None and result.failure is not None
    assert (result.failure.kind, result.trace.chosen, result.trace.votes) == ("forbidden", None, ())


def test_a_program_that_failed_in_an_earlier_vote_is_drawn_anew() -> None:
    result, written = ask([BROKEN, BROKEN, saying("red")], votes=2, trials=1)
    assert written == 3 and [trial.ok for trial in result.trace.trials] == [False, True]


def test_each_vote_corrects_itself() -> None:
    programs = [BROKEN, saying("red"), "return 3 +", saying("red", 1)]
    result, _ = ask(programs, trials=2)
    assert [trial.correction for trial in result.trace.trials] == ["first", "self_debug"] * 2
    assert result.trace.votes == (("red", 2),)


def test_later_votes_are_sampled_with_seeds_of_their_own() -> None:
    with Bench([saying("red"), saying("blue"), saying("red", 1)], votes=3, seed=7) as bench:
        bench.reasoner.run(picture(), "what color is it?")
        given = [call.sampling for call in bench.llm.calls]
    assert [one.temperature for one in given] == [0.0, 0.4, 0.4]
    assert len({one.seed for one in given}) == 3


def test_no_two_programs_of_neighbouring_seeds_are_drawn_alike() -> None:
    seeds = [
        attempt_sampling(RunSettings(seed=seed), attempt, vote=vote).seed
        for seed in range(100)
        for vote in range(25)
        for attempt in range(50)
    ]
    assert len(set(seeds)) == len(seeds) and max(seeds) < 2**31


def test_a_high_temperature_is_kept() -> None:
    assert attempt_sampling(RunSettings(temperature=0.9), vote=1).temperature == 0.9


@pytest.mark.parametrize("bound", [{"max_llm_calls": 2}, {"max_llm_tokens": 1}])
def test_budgets_hold_over_all_votes(bound: dict[str, int]) -> None:
    programs = [saying("red"), saying("blue"), saying("blue", 1)]
    result, written = ask(programs, **bound)
    assert written == bound.get("max_llm_calls", 1)
    assert result.answer is not None and result.answer.value == "red" and result.failure is None


def test_one_vote_is_what_it_was() -> None:
    result, written = ask([saying("red"), saying("blue")], votes=1)
    assert written == 1 and (result.trace.chosen, result.trace.votes) == (0, ())


def test_a_fallback_answers_where_every_vote_failed() -> None:
    with Bench([BROKEN, "1 +"], votes=2, trials=1, fallback="vipergpt") as bench:
        result = bench.reasoner.run(picture(), "the cube")
    assert result.trace.fallback == "average_box" and result.trace.chosen == 2
    assert result.trace.votes == ()


def test_boxes_that_overlap_are_one_answer_and_the_central_one_counts() -> None:
    with Bench([boxed(70), boxed(10), boxed(15), boxed(13)], votes=5) as bench:
        result = bench.reasoner.run(picture(), "the cube")
    assert result.trace.chosen == 3
    assert result.trace.votes == (("[13, 40, 33, 60]", 3), ("[70, 40, 90, 60]", 1))


def test_boxes_in_different_pictures_are_different_answers() -> None:
    votes = [box(0, 0, 9, 9), box(0, 0, 9, 9, index=1), box(0, 0, 9, 9, index=1)]
    assert groups_of(votes) == [(1, 2), (0,)]


def test_a_chain_of_boxes_is_gathered_around_its_middle() -> None:
    chain = [box(left, 0, left + 10, 10) for left in (0, 3, 6, 9)]
    assert groups_of(chain) == [(0, 1, 2), (3,)]
    assert central(chain, (0, 1, 2)) == 1


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("a t-shirt", "T shirt", True),
        ("two", "2", True),
        ("yes", "no", False),
        ("?!", "...", False),
        ("red", "dark red", False),
    ],
)
def test_words_are_compared_as_metrics_compare_them(first: str, second: str, same: bool) -> None:
    assert (len(groups_of([word(first), word(second)])) == 1) == same


def test_numbers_options_truths_tags_and_pictures() -> None:
    numbers = [Answer(value, "number") for value in (2, 2.0, 2.5)]
    assert groups_of(numbers) == [(0, 1), (2,)]
    options = [Answer("same text", "choice", choice_index=index) for index in (1, 0, 1)]
    assert groups_of(options) == [(0, 2), (1,)]
    truths = [Answer(value, "truth") for value in (True, False, False)]
    assert groups_of(truths) == [(1, 2), (0,)]
    tags = [Answer([{"label": label}], "tags") for label in "aba"]
    assert groups_of(tags) == [(0, 2), (1,)]
    images = [Answer({"picture": f"edit-{name}"}, "image") for name in "aba"]
    assert groups_of(images) == [(0, 2), (1,)]


def test_a_vote_is_decided_exactly_when_no_way_of_going_on_changes_the_winner() -> None:
    def winner(cast: str) -> int:
        return groups_of([word(letter) for letter in cast])[0][0]

    def goes_on(cast: str, left: int) -> set[int]:
        if not left:
            return {winner(cast)}
        return set().union(*(goes_on(cast + letter, left - 1) for letter in "abcdz"))

    for total in (2, 3, 4, 5):
        for cast in ("a", "aa", "ab", "aab", "abb", "aba", "abc", "abcb", "aabb", "abbc"):
            if len(cast) > total:
                continue
            votes, left = [word(letter) for letter in cast], total - len(cast)
            assert is_decided(groups_of(votes), left) == (len(goes_on(cast, left)) == 1), cast


def test_short_texts() -> None:
    assert short_text(Answer("x\n" * 200, "text")).endswith("x…")
    assert len(short_text(Answer("x " * 200, "text"))) == 80
    assert short_text(Answer(None, "image")) == "a picture"
    assert short_text(box(1, 2, 3.5, 4, index=2)) == "[1, 2, 3.5, 4] in picture 2"


def test_votes_are_told_and_stored() -> None:
    result, _ = ask([saying("red"), saying("blue"), saying("blue", 1)])
    assert "votes: 2 for blue; 1 for red (the answer is of trial 2)" in list(details(result))
    record = json.loads(json.dumps(result_record(result.trace)))
    assert record["votes"] == [{"answer": "blue", "count": 2}, {"answer": "red", "count": 1}]
    assert record["chosen"] == 1 and record["program"] == saying("blue").strip()
    assert to_json(result.trace)["votes"] == [["blue", 2], ["red", 1]]


@pytest.mark.parametrize("votes", [0, 26])
def test_too_many_votes_or_none_are_refused(votes: int) -> None:
    with pytest.raises(UsageError, match=f"votes is {votes}; expected 1 to 25"):
        RunSettings(votes=votes)
