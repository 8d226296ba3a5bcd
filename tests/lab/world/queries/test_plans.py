"""Canonical programs in words."""

from __future__ import annotations

import pytest

from viper.errors import UnknownNameError
from viper_lab.world.queries.compositional import SELECTION_WEIGHTS
from viper_lab.world.queries.meaning import RESERVED_SHARES, Meaning
from viper_lab.world.queries.plans import CONCLUDED, PLANNED, gold_plan

CUBE = Meaning("unique", {"kind": "red cube"})
SECOND = Meaning("nth", {"kind": "pyramid", "side": "left", "rank": 2})


@pytest.mark.parametrize(
    ("meaning", "steps"),
    [
        (CUBE, ["Find the red cube."]),
        (
            SECOND,
            ["Find every pyramid.", "Order them, the leftmost first.", "Take the second one."],
        ),
        (
            Meaning("region", {"kind": "egg", "relation": "behind", "anchor": CUBE}),
            ["Find the red cube.", "Find every egg behind the red cube.", "Take the first one."],
        ),
        (
            Meaning("closest", {"kind": "thing", "anchor": CUBE}),
            ["Find the red cube.", "Find every thing.", "Take the one closest to the red cube."],
        ),
        (
            Meaning("between", {"kind": "ring", "anchor": CUBE, "second_anchor": SECOND}),
            [
                "Find the red cube.",
                "Find every pyramid.",
                "Order them, the leftmost first.",
                "Take the second one.",
                "Find every ring.",
                "Take the one between the red cube and the pyramid.",
            ],
        ),
        (
            Meaning("attribute", {"of": CUBE, "attribute": "material"}),
            ["Find the red cube.", "Ask what material it has."],
        ),
        (
            Meaning("count_filter", {"kind": "cube", "property": "pink"}),
            ["Find every cube.", "Keep those that are pink.", "Count them."],
        ),
        (
            Meaning("exists_region", {"kind": "egg", "relation": "left", "anchor": CUBE}),
            [
                "Find the red cube.",
                "Find every egg left of the red cube.",
                "Say whether there is any.",
            ],
        ),
    ],
)
def test_steps(meaning: Meaning, steps: list[str]) -> None:
    assert gold_plan(meaning) == "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1))


def test_what_has_no_plan_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'same_color'"):
        gold_plan(Meaning("same_color", {"kind": "cube", "anchor": CUBE}))
    with pytest.raises(UnknownNameError, match="'same'"):
        gold_plan(Meaning("same", {"first": CUBE, "second": CUBE, "attribute": "color"}))


def test_whatever_is_asked_about_reserved_concepts_has_a_plan() -> None:
    assert {*SELECTION_WEIGHTS, *RESERVED_SHARES["referring"]} <= set(PLANNED)
    assert set(RESERVED_SHARES["question"]) <= set(CONCLUDED)
