"""Which actions were of use."""

from __future__ import annotations

import pytest

from tests.tuning.agent.turns import (
    COUNT,
    DONE,
    DOUBT,
    FIND,
    STORE,
    UNREADABLE,
    WHOLE,
    code,
    failed,
    thought,
    workflow,
)
from viper.schema import Turn
from viper.strategies.explore.flagging import flagged

AGREES = code("answer = image_patch.simple_query('how many cubes are there?')", "2")


@pytest.mark.parametrize(
    ("turns", "reasons"),
    [
        ((FIND, COUNT, STORE, DONE), ("", "", "", "")),
        ((WHOLE, DOUBT, FIND, COUNT, STORE, DONE), ("doubted", "discrepancy", "", "", "", "")),
        ((failed("patches[3]"), FIND, COUNT, STORE, DONE), ("traceback", "", "", "", "")),
        (
            (
                FIND,
                thought("However, one may be hidden. Let me rethink."),
                FIND,
                COUNT,
                STORE,
                DONE,
            ),
            ("doubted", "discrepancy", "", "", "", ""),
        ),
        (
            (thought("It must be red."), thought("I should rethink that."), STORE, DONE),
            ("rethink", "discrepancy", "", ""),
        ),
        ((UNREADABLE, STORE, DONE), ("unreadable", "", "")),
        (
            (code("depth = image_patch.compute_depth()", 3.0), FIND, COUNT, STORE, DONE),
            ("unused", "", "", "", ""),
        ),
        ((WHOLE, FIND, COUNT, STORE, DONE), ("unused", "", "", "", "")),
        ((code("len(image_patch.find('cube'))", 2), STORE, DONE), ("", "", "")),
        ((FIND, COUNT, AGREES, STORE, DONE), ("", "", "confirmed", "", "")),
        ((AGREES, FIND, COUNT, STORE, DONE), ("", "unused", "confirmed", "", "")),
        (
            (FIND, COUNT, WHOLE, DOUBT, FIND, COUNT, STORE, DONE),
            ("", "", "doubted", "discrepancy", "repeated", "repeated", "", ""),
        ),
        ((Turn(0, "done", "", "nothing is stored"), STORE, DONE), ("traceback", "", "")),
        ((STORE, Turn(0, "forced", "max_turns 1 reached")), ("", "unreadable")),
        (
            (FIND, COUNT, Turn(0, "forced", "max_turns 2 reached", value="2")),
            ("", "", "unreadable"),
        ),
    ],
)
def test_reasons(turns: tuple[Turn, ...], reasons: tuple[str, ...]) -> None:
    assert tuple(flag.reason for flag in flagged(workflow(*turns).turns)) == reasons


def test_code_on_other_values_is_not_repeated() -> None:
    rings = code("patches = image_patch.find('ring')", [1])
    add = code("total = total + len(patches)", 2)
    begun = code("total = 0", 0)
    stored = code("final_answer = total", 3)
    turns = workflow(begun, FIND, add, rings, add, stored, DONE, label=3).turns
    assert all(flag.is_effective for flag in flagged(turns))


def test_what_only_a_doubted_result_was_made_of_is_unused() -> None:
    lost = code("others = image_patch.find('ring')", [1])
    wrong = code("answer = str(len(others))", "1")
    turns = workflow(lost, wrong, DOUBT, FIND, COUNT, STORE, DONE).turns
    assert [flag.reason for flag in flagged(turns)][:3] == ["unused", "doubted", "discrepancy"]


def test_variables_of_loops_and_comprehensions_are_no_names_of_the_agent() -> None:
    looks = code("[p.simple_query('what color?') for p in patches]", ["red"])
    prints = code("for p in patches:\n    print(p.simple_query('what color?'))", None, "red")
    turns = workflow(FIND, looks, prints, COUNT, STORE, DONE).turns
    assert all(flag.is_effective for flag in flagged(turns))
    kept = code("patches = [p for p in patches if p.verify_property('cube', 'red')]", [1])
    again = workflow(FIND, kept, COUNT, FIND, kept, COUNT, STORE, DONE).turns
    assert [flag.reason for flag in flagged(again)][3:6] == ["repeated"] * 3


def test_what_is_assigned_in_a_branch_takes_nothing_away() -> None:
    branch = code("if len(patches) > 9:\n    answer = 'many'", None, "(nothing)")
    turns = workflow(FIND, COUNT, branch, STORE, DONE).turns
    assert all(flag.is_effective for flag in flagged(turns))


def test_names_are_followed_through_functions_and_loops() -> None:
    helper = code("def count(name):\n    return len(image_patch.find(name))")
    total = code("total = 0\nfor name in ('cube', 'ball'):\n    total += count(name)", None)
    stored = code("final_answer = total", 4)
    turns = workflow(helper, total, stored, DONE, label=4).turns
    assert all(flag.is_effective for flag in flagged(turns))
