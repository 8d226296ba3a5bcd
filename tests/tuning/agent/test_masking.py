"""Which actions have to be produced, and what is read before."""

from __future__ import annotations

import pytest

from tests.tuning.agent.turns import COUNT, DONE, DOUBT, FIND, STORE, WHOLE, failed, workflow
from viper.tuning.agent.masking import HOLE, masked

MADE = workflow(WHOLE, DOUBT, failed("patches[9]"), FIND, COUNT, STORE, DONE)


@pytest.mark.parametrize(
    ("variant", "turns"),
    [
        ("masking", [3, 4, 5, 6]),
        ("sft", [0, 1, 2, 3, 4, 5, 6]),
        ("rethink", [1, 3, 4, 5, 6]),
    ],
)
def test_what_is_masked(variant: str, turns: list[int]) -> None:
    found = list(masked(MADE, (), style="compact", variant=variant))
    assert [one.turn for one in found] == turns


def test_somebody_else_may_say_what_was_of_use() -> None:
    said = {0: True, 4: False, 1: False}
    found = list(masked(MADE, (), style="compact", said=said))
    assert [one.turn for one in found] == [0, 3, 5, 6]


def test_at_random_as_many_are_masked_and_the_same_ones_again() -> None:
    first = [one.turn for one in masked(MADE, (), style="compact", variant="random", seed=1)]
    again = [one.turn for one in masked(MADE, (), style="compact", variant="random", seed=1)]
    chosen = {
        tuple(one.turn for one in masked(MADE, (), style="compact", variant="random", seed=s))
        for s in range(20)
    }
    assert first == again and len(first) == 4 and len(chosen) > 5
    assert any(0 in one for one in chosen)


def test_what_was_of_no_use_is_read_and_never_produced() -> None:
    for one in masked(MADE, (), style="compact"):
        assert "simple_query" in one.prompt and "simple_query" not in one.target
        assert "Rethink" in one.prompt and "Traceback" in one.prompt
    first = next(iter(masked(MADE, (), style="compact")))
    assert first.target == "<code>\npatches = image_patch.find('cube')\n</code>\n"
    assert "find" not in first.prompt.split("# caption")[1].replace("patches[9]", "")
    assert first.prompt.startswith("# question: how many cubes are there?\n# caption: two cubes\n")


def test_the_rest_may_be_what_comes_after_too() -> None:
    first = next(iter(masked(MADE, (), style="compact", rest="all")))
    assert "str(len(patches))" in first.prompt and first.prompt.count(HOLE) == 2
    assert "image_patch.find('cube')" not in first.prompt
    before = next(iter(masked(MADE, (), style="compact")))
    assert "str(len(patches))" not in before.prompt


def test_large_models_are_asked_in_words() -> None:
    first = next(iter(masked(MADE, (), style="chat")))
    assert "## Rules" in first.prompt and "Query: how many cubes" in first.prompt
